// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/leader"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

func TestRenewalsOfTheLeaseHaveTheirOwnPriorityLevel(t *testing.T) {
	setup(t)
	objects, err := deploy.Controller()
	if err != nil {
		t.Fatal(err)
	}
	var schemas []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == "FlowSchema" {
			schemas = append(schemas, object)
		}
	}
	admin := clustertest.RESTConfig(t, cluster, "test")
	if err := deploy.Apply(t.Context(), admin, "", schemas); err != nil {
		t.Fatal(err)
	}
	flows, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := flows.FlowcontrolV1().FlowSchemas().Get(t.Context(), schemas[0].GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// What the server says of the flow of the last request.
	var flow string
	config := clustertest.RESTConfig(t, cluster, "test")
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":" + deploy.ControllerName,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil {
				flow = response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
			}
			return response, err
		})
	})
	controller, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for flow != string(schema.UID) { // the server takes it up in its own time
		_, _ = controller.CoordinationV1().Leases(deploy.Namespace).Get(ctx, leader.LeaseName, metav1.GetOptions{}) // there may be none
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("requests for the Lease go by FlowSchema %q, want %s", flow, schema.UID)
		}
	}
	if _, err := controller.CoreV1().Pods(deploy.Namespace).List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if flow == string(schema.UID) {
		t.Error("other requests have it too")
	}
}
