// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// errNotSynced says that it is not known yet what there is. It passes.
var errNotSynced = errors.New("the informer of Sandboxes has not synced")

// servedSandboxes is the view of Sandboxes where another controller runs them: of any
// version that the server has, and for as long as it has any. The definition may come,
// change and go while this process runs.
type servedSandboxes struct {
	config        *rest.Config
	watch, writes *http.Client
	definition    toolscache.SharedIndexInformer
	changed       chan struct{}

	mu       sync.RWMutex
	known    bool // whether it is known what is served
	current  *servedVersion
	handlers []func(before, after client.Object)
}

var _ consistent.Kind[*agents.Sandbox] = (*servedSandboxes)(nil)

// servedVersion is what is there while the server has one version.
type servedVersion struct {
	version  string
	informer toolscache.SharedIndexInformer
	view     *consistent.View[*agents.Sandbox]
	stop     context.CancelFunc
	ended    chan struct{}
}

func newServedSandboxes(config *rest.Config, watch, writes *http.Client) (*servedSandboxes, error) {
	c, err := dynamic.NewForConfigAndClient(dynamic.ConfigFor(config), watch)
	if err != nil {
		return nil, err
	}
	definitions := c.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", kinds.Sandboxes().Resource+"."+agents.GroupName).String()
	}
	s := &servedSandboxes{config: config, watch: watch, writes: writes, changed: make(chan struct{}, 1)}
	s.definition = toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			only(&o)
			return definitions.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			only(&o)
			return definitions.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, 0, toolscache.Indexers{})
	tell := func() {
		select {
		case s.changed <- struct{}{}:
		default: // it is told already
		}
	}
	_, err = s.definition.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
	})
	return s, err
}

// onChange calls handler for every Sandbox that comes, changes or goes. Call it before
// run.
func (s *servedSandboxes) onChange(handler func(before, after client.Object)) {
	s.handlers = append(s.handlers, handler)
}

// run follows the definition until ctx ends.
func (s *servedSandboxes) run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	go s.definition.RunWithContext(ctx)
	if !toolscache.WaitForCacheSync(ctx.Done(), s.definition.HasSynced) {
		return nil
	}
	defer s.end()
	for {
		if err := s.follow(ctx, log); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
	}
}

// follow brings what runs to what the definition says.
func (s *servedSandboxes) follow(ctx context.Context, log logr.Logger) error {
	version := ""
	for _, item := range s.definition.GetStore().List() {
		version = servedVersionOf(item.(*unstructured.Unstructured))
	}
	s.mu.RLock()
	current := s.current
	s.mu.RUnlock()
	if current != nil && current.version == version {
		return nil
	}
	s.end()
	s.mu.Lock()
	s.known = true
	s.mu.Unlock()
	if version == "" {
		log.Info("The server has no Sandboxes; waiting until it does")
		return nil
	}
	log.Info("Watching Sandboxes", "version", version)
	return s.begin(ctx, version)
}

// servedVersionOf is the version to use of those that a definition has: the one that
// this program was made for if it is served, else the first that is; none while the
// definition is not established, or going.
func servedVersionOf(definition *unstructured.Unstructured) string {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, &crd); err != nil || crd.DeletionTimestamp != nil {
		return ""
	}
	established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	if !established {
		return ""
	}
	first := ""
	for i := range crd.Spec.Versions {
		switch v := &crd.Spec.Versions[i]; {
		case !v.Served:
		case v.Name == agents.GroupVersion.Version:
			return v.Name
		case first == "":
			first = v.Name
		}
	}
	return first
}

func (s *servedSandboxes) begin(ctx context.Context, version string) error {
	kind := kinds.Sandboxes()
	kind.GVK.Version = version
	scheme := runtime.NewScheme() // all versions have the same fields, as far as anything here reads them
	gv := schema.GroupVersion{Group: kind.GVK.Group, Version: version}
	scheme.AddKnownTypeWithName(gv.WithKind(kind.GVK.Kind), &agents.Sandbox{})
	scheme.AddKnownTypeWithName(gv.WithKind(kind.GVK.Kind+"List"), &agents.SandboxList{})
	metav1.AddToGroupVersion(scheme, gv)

	c, err := apiutil.RESTClientForGVK(kind.GVK, false, false, s.config, serializer.NewCodecFactory(scheme), s.watch)
	if err != nil {
		return err
	}
	api, err := consistent.NewAPI[*agents.Sandbox](consistent.Server{Config: s.config, HTTP: s.writes, Scheme: scheme}, kind.GVK, kind.Resource)
	if err != nil {
		return err
	}
	lists := toolscache.NewListWatchFromClient(c, kind.Resource, metav1.NamespaceAll, fields.Everything())
	informer := toolscache.NewSharedIndexInformer(lists, kind.New(), 0, consistent.Indexers(kind.Indexes))
	if err := informer.SetTransform(func(item any) (any, error) {
		if box, ok := item.(*agents.Sandbox); ok {
			return kind.Slim(box), nil
		}
		return item, nil
	}); err != nil {
		return err
	}
	items := consistent.FromIndexer(informer.GetIndexer())
	v := &servedVersion{version: version, informer: informer, ended: make(chan struct{})}
	v.view = consistent.New(consistent.Options[*agents.Sandbox]{
		Name: kind.Resource, API: api, Store: items, Clock: clock.RealClock{}, Indexes: kind.Indexes, Transform: kind.Slim,
		Vanished:  func(last *agents.Sandbox) { s.tell(last, nil) },
		LookAgain: func(now *agents.Sandbox) { s.tell(nil, now) },
	})
	if err := tellOf(informer, v.view.Told); err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.tell(nil, sandboxOf(obj)) },
		UpdateFunc: func(before, after any) { s.tell(sandboxOf(before), sandboxOf(after)) },
		DeleteFunc: func(obj any) { s.tell(sandboxOf(obj), nil) },
	}); err != nil {
		return err
	}
	ctx, v.stop = context.WithCancel(ctx)
	go func() {
		defer close(v.ended)
		informer.RunWithContext(ctx)
	}()
	s.mu.Lock()
	s.current = v
	s.mu.Unlock()
	return nil
}

// end stops what runs, and tells of the end of everything that was there: no event does.
func (s *servedSandboxes) end() {
	s.mu.Lock()
	v := s.current
	s.current = nil
	s.mu.Unlock()
	if v == nil {
		return
	}
	v.stop()
	<-v.ended
	keys := v.informer.GetStore().ListKeys()
	slices.SortFunc(keys, strings.Compare)
	for _, key := range keys {
		if item, ok, err := v.informer.GetStore().GetByKey(key); ok && err == nil {
			s.tell(sandboxOf(item), nil)
		}
	}
}

func (s *servedSandboxes) tell(before, after *agents.Sandbox) {
	var was, is client.Object
	if before != nil {
		was = before
	}
	if after != nil {
		is = after
	}
	if was == nil && is == nil {
		return
	}
	for _, handler := range s.handlers {
		handler(was, is)
	}
}

// view returns the view there is now.
func (s *servedSandboxes) view() (*consistent.View[*agents.Sandbox], error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case !s.known:
		return nil, errNotSynced
	case s.current == nil:
		return nil, fmt.Errorf("sandboxes of %s: %w", agents.GroupName, consistent.ErrNotServed)
	case !s.current.informer.HasSynced():
		return nil, errNotSynced
	default:
		return s.current.view, nil
	}
}

// sweep keeps the view small.
func (s *servedSandboxes) sweep(ctx context.Context) error {
	v, err := s.view()
	if err != nil {
		return nil //nolint:nilerr // there is nothing to sweep
	}
	return v.Sweep(ctx)
}

// Get implements consistent.Kind.
func (s *servedSandboxes) Get(ctx context.Context, key types.NamespacedName) (*agents.Sandbox, bool, error) {
	v, err := s.view()
	if err != nil {
		return nil, false, err
	}
	return v.Get(ctx, key)
}

// By implements consistent.Kind.
func (s *servedSandboxes) By(ctx context.Context, index, value string) ([]*agents.Sandbox, error) {
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	return v.By(ctx, index, value)
}

// Peek implements consistent.Kind.
func (s *servedSandboxes) Peek(index, value string) []*agents.Sandbox {
	v, err := s.view()
	if err != nil {
		return nil
	}
	return v.Peek(index, value)
}

// Undecided implements consistent.Kind.
func (s *servedSandboxes) Undecided(index, value string) []consistent.Attempt[*agents.Sandbox] {
	v, err := s.view()
	if err != nil {
		return nil
	}
	return v.Undecided(index, value)
}

// InDoubt implements consistent.Kind.
func (s *servedSandboxes) InDoubt(key types.NamespacedName) bool {
	v, err := s.view()
	return err == nil && v.InDoubt(key)
}

// Live implements consistent.Kind.
func (s *servedSandboxes) Live(ctx context.Context, key types.NamespacedName) (*agents.Sandbox, bool, error) {
	v, err := s.view()
	if err != nil {
		return nil, false, err
	}
	return v.Live(ctx, key)
}

// Create implements consistent.Kind.
func (s *servedSandboxes) Create(ctx context.Context, obj *agents.Sandbox) (*agents.Sandbox, error) {
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	return v.Create(ctx, obj)
}

// Patch implements consistent.Kind.
func (s *servedSandboxes) Patch(ctx context.Context, base *agents.Sandbox, p consistent.Patch) (*agents.Sandbox, error) {
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	return v.Patch(ctx, base, p)
}

// PatchStatus implements consistent.Kind.
func (s *servedSandboxes) PatchStatus(ctx context.Context, base *agents.Sandbox, p consistent.Patch) (*agents.Sandbox, error) {
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	return v.PatchStatus(ctx, base, p)
}

// Apply implements consistent.Kind.
func (s *servedSandboxes) Apply(ctx context.Context, base *agents.Sandbox, manager string, configuration consistent.Patch) (*agents.Sandbox, error) {
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	return v.Apply(ctx, base, manager, configuration)
}

// Delete implements consistent.Kind.
func (s *servedSandboxes) Delete(ctx context.Context, obj *agents.Sandbox, when consistent.Precondition) error {
	v, err := s.view()
	if err != nil {
		return err
	}
	return v.Delete(ctx, obj, when)
}
