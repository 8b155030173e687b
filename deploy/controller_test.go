// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/deploy"
)

// Clients find the controller by these names.
func TestTheControllerIsWhereClientsLookForIt(t *testing.T) {
	deployment := &appsv1.Deployment{}
	find(t, "Deployment", "agent-sandbox-controller", deployment)
	if deployment.Namespace != "agent-sandbox-system" {
		t.Errorf("its namespace is %q", deployment.Namespace)
	}
	pod := deployment.Spec.Template
	if len(pod.Spec.Containers) != 1 || pod.Spec.Containers[0].Name != "agent-sandbox-controller" || pod.Spec.Containers[0].Image != deploy.ControllerImage {
		t.Errorf("its containers are %+v", pod.Spec.Containers)
	}
	service := &corev1.Service{}
	find(t, "Service", "agent-sandbox-controller", service)
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the Service selects %s=%s, and the pod has %q", key, value, pod.Labels[key])
		}
	}
	if service.Spec.Ports[0].Port != 8080 {
		t.Errorf("the Service has ports %v", service.Spec.Ports)
	}
}

func TestTheControllerMayNotDoEverything(t *testing.T) {
	objects, err := deploy.Rights()
	if err != nil {
		t.Fatal(err)
	}
	roles := 0
	for _, object := range objects {
		role := &rbacv1.ClusterRole{} // a Role has the same rules
		if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
			continue
		}
		convert(t, object.Object, role)
		roles++
		for _, rule := range role.Rules {
			all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)
			for _, none := range []string{"*", "secrets", "escalate", "bind", "impersonate", "deletecollection", "pods/exec"} {
				if slices.Contains(all, none) {
					t.Errorf("%s %s has %q in %v", object.GetKind(), object.GetName(), none, rule)
				}
			}
		}
	}
	if roles != 4 {
		t.Errorf("there are %d roles", roles)
	}
}

func find(t *testing.T, kind, name string, into any) {
	t.Helper()
	objects, err := deploy.Controller()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			convert(t, object.Object, into)
			return
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
}

func convert(t *testing.T, from map[string]any, into any) {
	t.Helper()
	strict := true // a field that does not exist is a mistake
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from, into, strict); err != nil {
		t.Fatal(err)
	}
}
