// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`

// Request is one request that the API server answered.
type Request struct {
	UserAgent   string
	User        string
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection
	Group       string // API group; empty for the core group
	Resource    string // plural, such as pods; empty for paths that are none, such as /healthz
	Subresource string
	Namespace   string
	Name        string
	Code        int // HTTP status
	Received    time.Time
}

// Writes says whether the request asks for a change.
func (r Request) Writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

func (r Request) String() string {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s by %s: %d", r.Verb, resource, r.Namespace, r.Name, r.UserAgent, r.Code)
}

// Requests returns the requests that were answered since a mark, in the order they were, and the next
// mark; the first mark is 0. It holds every request whose answer came before the call. A watch is
// there when it has ended. The cluster needs Options.Audit.
func (c *Cluster) Requests(ctx context.Context, mark int64) (requests []Request, next int64, err error) {
	if !c.config.Audit {
		return nil, mark, errors.New("the cluster was started without Options.Audit")
	}
	// A request can be answered a moment before it is logged. One of our own, sent now, is logged later.
	own := "/version?berth-mark=" + rand.String(12)
	if err := c.probe(ctx, own); err != nil {
		return nil, mark, fmt.Errorf("mark the audit log: %w", err)
	}
	var lines []byte
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		lines, err = readFrom(c.auditLog(), mark)
		return bytes.Contains(lines, []byte(own)), err
	})
	if err != nil {
		return nil, mark, fmt.Errorf("read the audit log: %w", err)
	}
	for line := range bytes.Lines(lines) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // still being written; the next call has it
		}
		mark += int64(len(line))
		request, uri, err := parseAudit(line)
		if err != nil {
			return nil, mark, err
		}
		if !strings.Contains(uri, "berth-mark=") {
			requests = append(requests, request)
		}
	}
	return requests, mark, nil
}

func parseAudit(line []byte) (request Request, uri string, err error) {
	var event struct {
		UserAgent  string
		RequestURI string
		Verb       string
		User       struct{ Username string }
		ObjectRef  struct {
			APIGroup, Resource, Subresource, Namespace, Name string
		}
		ResponseStatus           struct{ Code int }
		RequestReceivedTimestamp time.Time
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return request, "", fmt.Errorf("audit log: %w", err)
	}
	object := event.ObjectRef
	return Request{
		UserAgent: event.UserAgent, User: event.User.Username, Verb: event.Verb,
		Group: object.APIGroup, Resource: object.Resource, Subresource: object.Subresource,
		Namespace: object.Namespace, Name: object.Name,
		Code: event.ResponseStatus.Code, Received: event.RequestReceivedTimestamp,
	}, event.RequestURI, nil
}

func readFrom(file string, offset int64) ([]byte, error) {
	log, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if _, err := log.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(log)
}

func (c *Cluster) auditPolicy() string { return filepath.Join(c.dir, "audit-policy.yaml") }

func (c *Cluster) auditLog() string { return filepath.Join(c.dir, "logs", "audit.log") }

func (c *Cluster) auditArgs() []string {
	return []string{
		"--audit-policy-file=" + c.auditPolicy(),
		"--audit-log-path=" + c.auditLog(),
		"--audit-log-mode=blocking",  // nothing is dropped, whatever the load
		"--audit-log-maxsize=100000", // megabytes: never begun anew, so that marks stay right
	}
}
