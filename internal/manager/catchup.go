// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// catchUpPage is how many objects one request of the look at the server returns.
	catchUpPage = 500
	// catchUpInterval is the time between two looks at whether an informer has caught up.
	catchUpInterval = 20 * time.Millisecond
)

// versions asks the server for the versions of the objects of a kind: the next page
// of them, and the version of the whole list.
type versions func(ctx context.Context, resource schema.GroupVersionResource, next string) (*metav1.PartialObjectMetadataList, error)

func serverVersions(config *rest.Config) (versions, error) {
	connection, err := ownConnection(config, "catch-up", requestTimeout)
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), connection)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, resource schema.GroupVersionResource, next string) (*metav1.PartialObjectMetadataList, error) {
		// Without a version this is a quorum read.
		return client.Resource(resource).List(ctx, metav1.ListOptions{Limit: catchUpPage, Continue: next})
	}, nil
}

// catchUp lets passes run once every informer shows all that was there when this
// process began to lead. Until then the one that led before may have made objects that
// an informer which lags does not show, and a pool would be filled twice.
//
// An informer's version says how far it is, but stands still while nothing of its kind
// changes. So it is compared with the newest of the objects that are there.
func (m *Manager) catchUp(ctx context.Context) error {
	log := m.manager.GetLogger()
	for _, s := range m.stores {
		err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			if err := s.reach(logr.NewContext(ctx, log), m.versions); err != nil {
				log.Error(err, "Could not find out how far the informer is; trying again", "resource", s.gvr.Resource)
				return false, nil
			}
			return true, nil
		})
		if err != nil {
			return nil //nolint:nilerr // only the context's end gets here, which is no failure
		}
	}
	close(m.current)
	<-ctx.Done()
	return nil
}

// reach returns when the store shows every object that the server has now, in that or
// a later version.
func (s *store) reach(ctx context.Context, ask versions) error {
	var newest uint64
	for next := ""; ; {
		page, err := ask(ctx, s.gvr, next)
		if err != nil {
			return fmt.Errorf("list %s: %w", s.gvr.Resource, err)
		}
		// A store as new as the list shows all of it.
		if whole, err := strconv.ParseUint(page.ResourceVersion, 10, 64); err == nil && s.version() >= whole {
			return nil
		}
		for i := range page.Items {
			version, err := strconv.ParseUint(page.Items[i].ResourceVersion, 10, 64)
			if err != nil {
				return fmt.Errorf("%s %s has version %q: %w", s.gvr.Resource, page.Items[i].Name, page.Items[i].ResourceVersion, err)
			}
			newest = max(newest, version)
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	if s.version() < newest {
		logr.FromContextOrDiscard(ctx).Info("Waiting for an informer to catch up before anything is written", "resource", s.gvr.Resource, "at", s.version(), "server", newest)
	}
	return wait.PollUntilContextCancel(ctx, catchUpInterval, true, func(context.Context) (bool, error) {
		return s.version() >= newest, nil
	})
}
