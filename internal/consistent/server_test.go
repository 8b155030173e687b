// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	pods    = schema.GroupResource{Resource: "pods"}
	errLost = errors.New("connection reset by peer")
	epoch   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// fault is what happens to a request.
type fault int

const (
	fine        fault = iota
	lostReply         // it lands and the reply is lost
	unavailable       // it is refused with 503 and does not land
	delayed           // the connection breaks and it lands when the test says so
	resent            // the first attempt lands, and the caller sees the answer to the second
)

// server is the API server for pods: optimistic concurrency, UIDs, finalizers.
type server struct {
	mu      sync.Mutex
	version uint64
	uids    int
	objects map[types.NamespacedName]*corev1.Pod
	log     []change
	late    []func() // delayed requests
	reads   int

	// fault says what happens to the next write; nil is fine.
	fault func(verb Verb, key types.NamespacedName) fault
	// replying is called when a request was handled and its reply is under way.
	replying func(verb string, key types.NamespacedName)
	// landed is called when a write landed, with the change it made.
	landed func(verb Verb, c change)
	// down makes reads fail.
	down bool
}

// change is one event of the server's history.
type change struct {
	version uint64
	kind    watch.EventType
	pod     *corev1.Pod
}

func newServer() *server {
	return &server{version: 100, objects: map[types.NamespacedName]*corev1.Pod{}}
}

func (s *server) Get(_ context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	s.mu.Lock()
	s.reads++
	obj, err := s.find(key)
	if s.down {
		err = apierrors.NewServiceUnavailable("down")
	}
	s.mu.Unlock()
	s.reply("get", key)
	return obj, err
}

func (s *server) Create(_ context.Context, obj *corev1.Pod) (*corev1.Pod, error) {
	key := client.ObjectKeyFromObject(obj)
	return s.write(VerbCreate, key, func() (*corev1.Pod, error) { return s.create(obj) })
}

func (s *server) Patch(_ context.Context, key types.NamespacedName, _ string, body []byte) (*corev1.Pod, error) {
	return s.write(VerbPatch, key, func() (*corev1.Pod, error) { return s.patch(key, body) })
}

func (s *server) Delete(_ context.Context, key types.NamespacedName, condition DeleteCondition) (*corev1.Pod, bool, error) {
	obj, err := s.write(VerbDelete, key, func() (*corev1.Pod, error) { return s.delete(key, condition) })
	return obj, obj != nil, err
}

func (s *server) write(verb Verb, key types.NamespacedName, do func() (*corev1.Pod, error)) (*corev1.Pod, error) {
	locked := func() (*corev1.Pod, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		before := s.version
		obj, err := do()
		if s.landed != nil && s.version > before {
			s.landed(verb, s.log[len(s.log)-1])
		}
		return obj, err
	}
	f := fine
	if s.fault != nil {
		f = s.fault(verb, key)
	}
	switch f {
	case unavailable:
		return nil, apierrors.NewServiceUnavailable("try again")
	case delayed:
		s.late = append(s.late, func() { _, _ = locked() })
		return nil, errLost
	}
	obj, err := locked()
	switch f {
	case lostReply:
		return nil, errLost
	case resent:
		obj, err = locked()
	}
	s.reply(string(verb), key)
	return obj, err
}

func (s *server) reply(verb string, key types.NamespacedName) {
	if s.replying != nil {
		s.replying(verb, key)
	}
}

func (s *server) find(key types.NamespacedName) (*corev1.Pod, error) {
	obj, ok := s.objects[key]
	if !ok {
		return nil, apierrors.NewNotFound(pods, key.Name)
	}
	return obj.DeepCopy(), nil
}

func (s *server) create(obj *corev1.Pod) (*corev1.Pod, error) {
	key := client.ObjectKeyFromObject(obj)
	if s.objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(pods, key.Name)
	}
	s.uids++
	created := obj.DeepCopy()
	created.UID = types.UID(fmt.Sprintf("uid-%d", s.uids))
	created.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(s.uids) * time.Second))
	return s.store(watch.Added, created), nil
}

func (s *server) patch(key types.NamespacedName, body []byte) (*corev1.Pod, error) {
	obj, err := s.find(key)
	if err != nil {
		return nil, err
	}
	var condition metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &condition); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if condition.UID != obj.UID || condition.ResourceVersion != obj.ResourceVersion {
		return nil, apierrors.NewConflict(pods, key.Name, errors.New("the object has been modified"))
	}
	before, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := &corev1.Pod{}
	if err := json.Unmarshal(after, next); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if reflect.DeepEqual(obj, next) {
		return obj, nil
	}
	return s.store(watch.Modified, next), nil
}

func (s *server) delete(key types.NamespacedName, condition DeleteCondition) (*corev1.Pod, error) {
	obj, err := s.find(key)
	switch {
	case err != nil:
		return nil, err
	case condition.UID != "" && condition.UID != obj.UID, condition.ResourceVersion != "" && condition.ResourceVersion != obj.ResourceVersion:
		return nil, apierrors.NewConflict(pods, key.Name, errors.New("the precondition failed"))
	case len(obj.Finalizers) == 0:
		s.store(watch.Deleted, obj)
		return nil, nil
	case obj.DeletionTimestamp == nil:
		now := metav1.NewTime(epoch)
		obj.DeletionTimestamp = &now
		return s.store(watch.Modified, obj), nil
	default:
		return obj, nil
	}
}

// store makes obj the newest state of its key and returns a copy.
func (s *server) store(kind watch.EventType, obj *corev1.Pod) *corev1.Pod {
	s.version++
	obj.ResourceVersion = strconv.FormatUint(s.version, 10)
	s.log = append(s.log, change{s.version, kind, obj})
	if kind == watch.Deleted {
		delete(s.objects, client.ObjectKeyFromObject(obj))
	} else {
		s.objects[client.ObjectKeyFromObject(obj)] = obj
	}
	return obj.DeepCopy()
}

// Others' writes.

func (s *server) edit(key types.NamespacedName, edit func(*corev1.Pod)) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := s.objects[key].DeepCopy()
	edit(obj)
	return s.store(watch.Modified, obj)
}

func (s *server) remove(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(watch.Deleted, s.objects[key].DeepCopy())
}

func (s *server) add(obj *corev1.Pod) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	created, err := s.create(obj)
	if err != nil {
		panic(err)
	}
	return created
}

// tick is a write to another resource.
func (s *server) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
}

// now is the present state of a key, nil if there is none.
func (s *server) now(key types.NamespacedName) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key]
}

// at is the state of all keys at a version, ordered.
func (s *server) at(version uint64) []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := map[types.NamespacedName]*corev1.Pod{}
	for _, c := range s.log {
		if c.version > version {
			break
		}
		key := client.ObjectKeyFromObject(c.pod)
		if c.kind == watch.Deleted {
			delete(state, key)
		} else {
			state[key] = c.pod
		}
	}
	var found []*corev1.Pod
	for _, obj := range state {
		found = append(found, obj)
	}
	slices.SortFunc(found, byAge[*corev1.Pod])
	return found
}

func (s *server) since(version uint64) []change {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.log, func(c change) bool { return c.version > version })
	if i < 0 {
		return nil
	}
	return slices.Clone(s.log[i:])
}

func (s *server) latest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *server) readCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// failNext makes the next write meet f.
func (s *server) failNext(f fault) {
	s.fault = func(Verb, types.NamespacedName) fault {
		s.fault = nil
		return f
	}
}

// landLate lets delayed requests land.
func (s *server) landLate() {
	for len(s.late) > 0 {
		s.landOne(0)
	}
}

func (s *server) landOne(i int) {
	land := s.late[i]
	s.late = slices.Delete(s.late, i, i+1)
	land()
}

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// pod is a pod that an owner is looked up by.
func pod(name, owner string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"owner": owner}}}
}

// seenPod is a pod with an identity.
func seenPod(name, owner, uid string, rv uint64) *corev1.Pod {
	p := pod(name, owner)
	p.UID, p.ResourceVersion = types.UID(uid), strconv.FormatUint(rv, 10)
	return p
}

func owners(p *corev1.Pod) []string {
	if owner := p.Labels["owner"]; owner != "" {
		return []string{owner}
	}
	return nil
}

var byOwner = map[string]Index[*corev1.Pod]{"owner": owners}

// label is the patch that sets a label.
func label(key string, value any) Patch {
	return Patch{"metadata": map[string]any{"labels": map[string]any{key: value}}}
}
