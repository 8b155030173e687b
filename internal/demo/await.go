// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func loadConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.UserAgent, config.WarningHandler = -1, "berth-demo", rest.NoWarnings{}
	return config, nil
}

// watch gives every change of an object, beginning with what it is now.
func (d *demo) watch(ctx context.Context, of client.ObjectList, name string) (watch.Interface, error) {
	changes, err := d.client.Watch(ctx, of, client.InNamespace(Namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", name, err)
	}
	return changes, nil
}

// await watches an object of the demo until it is as wanted. Judge also says what it
// waits for; it is given nil when there is no such object.
func (d *demo) await(ctx context.Context, of client.ObjectList, name string, judge func(client.Object) (bool, string)) error {
	if err := d.client.List(ctx, of, client.InNamespace(Namespace), client.MatchingFields{"metadata.name": name}); err != nil {
		return err
	}
	if meta.LenList(of) == 0 {
		if done, _ := judge(nil); done {
			return nil
		}
	}
	changes, err := d.watch(ctx, of, name)
	if err != nil {
		return err
	}
	defer changes.Stop()
	if err := follow(ctx, changes, judge); err != nil {
		return fmt.Errorf("wait for %s: %w", name, err)
	}
	return nil
}

func follow(ctx context.Context, changes watch.Interface, judge func(client.Object) (bool, string)) error {
	waits := "nothing is known of it yet"
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ctx.Err(), waits)
		case change, ok := <-changes.ResultChan():
			if !ok {
				return fmt.Errorf("the server ended the watch: %s", waits)
			}
			object, isObject := change.Object.(client.Object)
			if !isObject {
				return fmt.Errorf("the watch failed: %v", change.Object)
			}
			if change.Type == watch.Deleted {
				object = nil
			}
			var done bool
			done, waits = judge(object)
			if done {
				return nil
			}
		}
	}
}

func isTrue(conditions []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(conditions, kind)
}

// explain says what the first of the conditions that is not True says.
func explain(conditions []metav1.Condition, kinds ...string) string {
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return "the controller has not said why"
}

// since is how long ago a moment was, in tenths of a second.
func since(began time.Time) time.Duration {
	return time.Since(began).Round(100 * time.Millisecond)
}
