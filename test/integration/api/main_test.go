// SPDX-License-Identifier: Apache-2.0

// Package api tests what the API server makes of the definitions and admission
// policies in deploy/.
package api

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

var (
	cluster *localcluster.Cluster
	install = sync.OnceValues(func() (*rest.Config, error) {
		config, err := cluster.RESTConfig()
		if err != nil {
			return nil, err
		}
		config.WarningHandler = rest.NoWarnings{}
		config.QPS = -1
		ctx, cancel := context.WithTimeout(context.Background(), installLimit)
		defer cancel()
		return config, deploy.Install(ctx, config)
	})
)

// installLimit ends an installation that a broken policy would keep waiting.
const installLimit = 3 * time.Minute

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m, &cluster)) }

// space is a namespace of the API server, for one test.
type space struct {
	t      *testing.T
	name   string
	config *rest.Config
	client dynamic.Interface
}

func newSpace(t *testing.T) *space {
	t.Helper()
	config, err := install()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := core.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "api-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &space{t: t, name: namespace.Name, config: config, client: client}
}

var plurals = map[string]string{
	"Sandbox":         "sandboxes",
	"SandboxTemplate": "sandboxtemplates",
	"SandboxWarmPool": "sandboxwarmpools",
	"SandboxClaim":    "sandboxclaims",
}

// resource gives the client for a kind at a version.
func (s *space) resource(kind, version string) dynamic.ResourceInterface {
	group := "extensions.agents.x-k8s.io"
	if kind == "Sandbox" {
		group = "agents.x-k8s.io"
	}
	return s.client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plurals[kind]}).Namespace(s.name)
}

// object makes an object of the kind from the YAML of its spec.
func object(kind, version, name, spec string) *unstructured.Unstructured {
	group := "extensions.agents.x-k8s.io"
	if kind == "Sandbox" {
		group = "agents.x-k8s.io"
	}
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetAPIVersion(group + "/" + version)
	made.SetKind(kind)
	made.SetName(name)
	if err := unstructured.SetNestedField(made.Object, parse(spec), "spec"); err != nil {
		panic(err)
	}
	return made
}

// parse reads YAML in the types that unstructured objects have.
func parse(text string) any {
	raw, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(text, "\t", "  ")))
	if err != nil {
		panic(fmt.Sprintf("%v in:\n%s", err, text))
	}
	holder := &unstructured.Unstructured{}
	wrapped := append(append([]byte(`{"apiVersion":"v1","kind":"X","value":`), raw...), '}')
	if err := holder.UnmarshalJSON(wrapped); err != nil {
		panic(err)
	}
	return holder.Object["value"]
}

// create creates an object and fails the test if the server refuses.
func (s *space) create(kind, version, name, spec string) *unstructured.Unstructured {
	s.t.Helper()
	created, err := s.tryCreate(kind, version, name, spec)
	if err != nil {
		s.t.Fatalf("create %s: %v", kind, err)
	}
	return created
}

func (s *space) tryCreate(kind, version, name, spec string) (*unstructured.Unstructured, error) {
	return s.resource(kind, version).Create(s.t.Context(), object(kind, version, name, spec), metav1.CreateOptions{})
}

// patch applies a merge patch in YAML and fails the test if the server refuses.
func (s *space) patch(kind, version, name, patch string, subresource ...string) *unstructured.Unstructured {
	s.t.Helper()
	patched, err := s.tryPatch(kind, version, name, patch, subresource...)
	if err != nil {
		s.t.Fatalf("patch %s %s with %s: %v", kind, name, patch, err)
	}
	return patched
}

func (s *space) tryPatch(kind, version, name, patch string, subresource ...string) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(parse(patch))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.resource(kind, version).Patch(s.t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{}, subresource...)
}

func (s *space) get(kind, version, name string) *unstructured.Unstructured {
	s.t.Helper()
	found, err := s.resource(kind, version).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// at gives the value at a dotted path of an object as JSON, or "" if there is none.
func at(object *unstructured.Unstructured, path string) string {
	var value any = object.Object
	for name := range strings.SplitSeq(path, ".") {
		switch in := value.(type) {
		case map[string]any:
			next, ok := in[name]
			if !ok {
				return ""
			}
			value = next
		case []any:
			value = in[0]
		default:
			return ""
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return strings.Trim(string(raw), `"`)
}

// refused fails the test unless the server's refusal says what is wanted.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want a refusal that says %q", want)
	}
	if !strings.Contains(err.Error(), want) {
		t.Fatalf("refused with %q, want it to say %q", err, want)
	}
}

const (
	pod      = `{spec: {containers: [{name: c, image: i}]}}`
	aSandbox = `{podTemplate: ` + pod + `}`
)
