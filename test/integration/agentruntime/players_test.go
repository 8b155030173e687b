// SPDX-License-Identifier: Apache-2.0

package agentruntime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
)

// follow tells of everything of a kind in the namespace, and of every change in its order,
// until the context ends. A server may end a watch at any time; none is missed then.
func (s *stage) follow(ctx context.Context, list client.ObjectList, tell func(obj client.Object, gone bool)) {
	if err := s.client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		if ctx.Err() == nil {
			s.t.Error(err)
		}
		return
	}
	version := list.GetResourceVersion()
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		tell(obj.(client.Object), false)
		return nil
	})
	for ctx.Err() == nil {
		w, err := s.client.Watch(ctx, list, client.InNamespace(s.namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		if err != nil {
			continue
		}
		for event := range w.ResultChan() {
			obj, ok := event.Object.(client.Object)
			if !ok {
				if ctx.Err() == nil {
					s.t.Errorf("%T cannot be followed: %v", list, event.Object)
				}
				w.Stop()
				return
			}
			version = obj.GetResourceVersion()
			tell(obj, event.Type == watch.Deleted)
		}
		w.Stop()
	}
}

// background runs something until the test ends.
func (s *stage) background(run func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { run(ctx) })
	s.t.Cleanup(func() { cancel(); work.Wait() })
}

// statefulSets plays the controller of StatefulSets of one pod, or none: a pod that was not
// made from the template as it is goes, and the next one comes.
func (s *stage) statefulSets() {
	s.t.Helper()
	work := make([]chan *appsv1.StatefulSet, clients)
	for i := range work {
		work[i] = make(chan *appsv1.StatefulSet, 4*fleet)
		s.background(func(ctx context.Context) {
			made := map[string]string{} // the hash that the pod of each was made with
			for {
				select {
				case set := <-work[i]:
					if err := s.reconcile(ctx, set, made); err != nil && ctx.Err() == nil {
						s.t.Errorf("StatefulSet %s: %v", set.Name, err)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	s.background(func(ctx context.Context) {
		s.follow(ctx, &appsv1.StatefulSetList{}, func(obj client.Object, gone bool) {
			if h := fnv.New32a(); !gone {
				_, _ = h.Write([]byte(obj.GetName())) // a hash never fails to write
				work[h.Sum32()%clients] <- obj.(*appsv1.StatefulSet)
			}
		})
	})
}

func (s *stage) reconcile(ctx context.Context, set *appsv1.StatefulSet, made map[string]string) error {
	template := set.Spec.Template
	hash := template.Annotations[api.AnnotationConfigHash]
	if has, ok := made[set.Name]; ptr.Deref(set.Spec.Replicas, 1) > 0 && (!ok || has != hash) {
		pod := &corev1.Pod{ObjectMeta: s.meta(set.Name + "-0"), Spec: template.Spec}
		if ok {
			if err := s.client.Delete(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		pod.ResourceVersion = ""
		pod.Labels, pod.Annotations = template.Labels, template.Annotations
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		if err := s.client.Create(ctx, pod); err != nil {
			return err
		}
		made[set.Name] = hash
	}
	if set.Status.ObservedGeneration == set.Generation {
		return nil
	}
	seen := fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%d}}`, set.Generation, ptr.Deref(set.Spec.Replicas, 1))
	return s.client.Status().Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(seen)))
}

// slowKubelet makes pods ready, and sees how many agents have none.
type slowKubelet struct {
	*stage
	mu       sync.Mutex
	batch    int // pods that have to wait before they become ready; 0 is none
	waiting  []*corev1.Pod
	made     map[types.UID]bool
	isReady  map[string]types.UID // the ready pod of each agent
	agents   map[string]bool
	counting bool
	down     int // the most agents that had no ready pod at once
}

func newSlowKubelet(s *stage) *slowKubelet {
	s.t.Helper()
	k := &slowKubelet{stage: s, made: map[types.UID]bool{}, isReady: map[string]types.UID{}, agents: map[string]bool{}}
	due := make(chan *corev1.Pod, 4*fleet)
	for range clients {
		s.background(func(ctx context.Context) {
			for {
				select {
				case p := <-due:
					_ = s.client.Status().Patch(ctx, p, readyPod()) // it may be gone again
				case <-ctx.Done():
					return
				}
			}
		})
	}
	s.background(func(ctx context.Context) {
		s.follow(ctx, &corev1.PodList{}, func(obj client.Object, gone bool) {
			for _, p := range k.see(obj.(*corev1.Pod), gone) {
				due <- p
			}
		})
	})
	return k
}

// see notes a pod, and returns those that are to become ready.
func (k *slowKubelet) see(p *corev1.Pod, gone bool) []*corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	agent := metav1.GetControllerOfNoCopy(p).Name
	k.agents[agent] = true
	known := k.made[p.UID]
	k.made[p.UID] = true
	switch ready := p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && !gone; {
	case ready:
		k.isReady[agent] = p.UID
	case k.isReady[agent] == p.UID:
		delete(k.isReady, agent)
	}
	if k.counting {
		k.down = max(k.down, len(k.agents)-len(k.isReady))
	}
	if !known {
		k.waiting = append(k.waiting, p.DeepCopy())
	}
	if len(k.waiting) < k.batch {
		return nil
	}
	now := k.waiting
	k.waiting = nil
	return now
}

// begin lets pods wait for each other from now on, and counts. It returns how many there
// have been.
func (k *slowKubelet) begin(batch int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.batch, k.counting = batch, true
	return len(k.made)
}

// end returns how many pods there have been, and how many agents were down at once.
func (k *slowKubelet) end() (made, down int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.made), k.down
}

// readyPod is what a kubelet says of a pod that runs.
func readyPod() client.Patch {
	ready := map[string]any{"status": map[string]any{"phase": "Running", "podIP": "10.0.0.1", "podIPs": []any{map[string]any{"ip": "10.0.0.1"}}, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}}
	text, _ := json.Marshal(ready) // it has nothing that JSON lacks
	return client.RawPatch(types.MergePatchType, text)
}
