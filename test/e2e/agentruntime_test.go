// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/install"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
)

// TestAgentRuntimesRollOutOnRealPods changes the configuration of agents that run in
// everything an AgentRuntime can name, with the controller as it is deployed. At every
// moment in between, an AgentRuntime that is Ready has no pod that was made with
// anything else.
func TestAgentRuntimesRollOutOnRealPods(t *testing.T) {
	log.SetLogger(logr.Discard())
	cluster := clustertest.Node(t)
	ctx, cancel := context.WithTimeout(t.Context(), cliPatience)
	defer cancel()
	if err := install.Berth(ctx, install.Options{Config: clustertest.RESTConfig(t, cluster, "agents-test"), Local: cluster}); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "agents-test"), client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	v := &village{T: t, ctx: ctx, cluster: cluster, client: c, pods: map[string]int{}}
	kubectl(ctx, t, cluster, "create", "namespace", agentsNamespace)
	v.history = record(ctx, t, c, agentsNamespace)

	v.settle()
	v.await("the pods that have no configuration run", "", func(*api.AgentRuntime) bool { return true })
	kubectl(ctx, t, cluster, "create", "configmap", "defaults", "-n", agentsNamespace, "--from-literal=model=small")
	kubectl(ctx, t, cluster, "label", "configmap", "defaults", "-n", agentsNamespace, api.LabelDefaults+"="+api.DefaultsTrue)
	v.configure()
	first := v.rolledOut("")

	kubectl(ctx, t, cluster, "patch", "configmap", "defaults", "-n", agentsNamespace, "--type", "merge", "-p", `{"data":{"model":"large"}}`)
	second := v.rolledOut(first)

	// The cluster's own is in another namespace. The namespace's has precedence, key by key.
	kubectl(ctx, t, cluster, "create", "namespace", api.DefaultOperatorNamespace)
	kubectl(ctx, t, cluster, "create", "configmap", api.ConfigMapPlatform, "-n", api.DefaultOperatorNamespace, "--from-literal=model=tiny", "--from-literal=collector=here")
	third := v.rolledOut(second)

	v.processesHave(third)
	v.madeOnce("", first, second, third)
	v.leave()
	for _, violation := range v.history.violations() {
		t.Error(violation)
	}
	logsNoErrors(ctx, t, c)
	v.controllerIsQuiet()
}

const agentsNamespace = "team1"

// village is the agents' namespace.
type village struct {
	*testing.T
	ctx     context.Context
	cluster *localcluster.Cluster
	client  client.WithWatch
	history *history
	kinds   []workloadKind
	pods    map[string]int // how many pods each workload has
}

// workloadKind is a workload as an AgentRuntime names it.
type workloadKind struct{ apiVersion, kind, name string }

func (v *village) create(object client.Object) {
	v.Helper()
	if err := v.client.Create(v.ctx, object); err != nil {
		v.Fatal(err)
	}
}

func inVillage(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: agentsNamespace, Name: name}
}

// agent is a container that can say with which hash its process was started, and ends when
// it is told to. One that is stubborn is killed when its grace period is over.
func agent(grace int64, stubborn bool) corev1.PodSpec {
	command := "trap 'exit 0' TERM; sleep infinity & wait"
	if stubborn {
		command = "trap '' TERM; while :; do sleep 1; done"
	}
	hash := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + api.AnnotationConfigHash + "']"}}
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To(grace),
		Containers: []corev1.Container{{
			Name: "agent", Image: localcluster.BusyboxImage, Command: []string{"sh", "-c", command},
			Env: []corev1.EnvVar{{Name: "CONFIG_HASH", ValueFrom: hash}},
		}},
	}
}

// settle makes all workloads.
func (v *village) settle() {
	v.Helper()
	const replicas = 2
	labels := func(name string) map[string]string { return map[string]string{"app": name} }
	template := func(name string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(name)}, Spec: agent(30, false)}
	}
	v.create(&appsv1.Deployment{ObjectMeta: inVillage("web"), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](replicas), Selector: &metav1.LabelSelector{MatchLabels: labels("web")}, Template: template("web"),
	}})
	v.has("apps/v1", "Deployment", "web", replicas)
	v.create(&appsv1.StatefulSet{ObjectMeta: inVillage("db"), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](replicas), Selector: &metav1.LabelSelector{MatchLabels: labels("db")}, Template: template("db"),
	}})
	v.has("apps/v1", "StatefulSet", "db", replicas)

	for name, edit := range map[string]func(*agents.Sandbox){
		"plain": func(*agents.Sandbox) {},
		"recreate": func(s *agents.Sandbox) {
			s.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateRecreate}
		},
		"stubborn": func(s *agents.Sandbox) { s.Spec.PodTemplate.Spec = agent(10, true) },
	} {
		s := &agents.Sandbox{ObjectMeta: inVillage(name)}
		s.Spec.PodTemplate.Spec = agent(30, false)
		edit(s)
		v.create(s)
		v.has("agents.x-k8s.io/v1beta1", "Sandbox", name, 1)
	}

	// A claim of a member that waits in a pool, and one of a template.
	of := &extensions.SandboxTemplate{ObjectMeta: inVillage("of-claims")}
	of.Spec.PodTemplate.Spec = agent(30, false)
	v.create(of)
	pool := &extensions.SandboxWarmPool{ObjectMeta: inVillage("warm")}
	pool.Spec.Replicas, pool.Spec.TemplateRef.Name = ptr.To[int32](1), of.Name
	v.create(pool)
	cold := &extensions.SandboxClaim{ObjectMeta: inVillage("cold")}
	cold.Spec.TemplateRef = &extensions.SandboxTemplateRef{Name: of.Name}
	v.create(cold)
	v.has("agents.x-k8s.io/v1alpha1", "Sandbox", cold.Name, 1)
	v.history.until(v.ctx, v.T, "the pool is full", func(now moment) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(now.pods)), func(p pod) bool { return strings.HasPrefix(p.workload, "warm-") && p.ready() })
	})
	warm := &extensions.SandboxClaim{ObjectMeta: inVillage("task")}
	warm.Spec.WarmPoolRef = &extensions.SandboxWarmPoolRef{Name: pool.Name}
	v.create(warm)
	kubectl(v.ctx, v.T, v.cluster, "wait", "--for=condition=Ready", "sandboxclaim/task", "-n", agentsNamespace, "--timeout=5m")
	if err := v.client.Get(v.ctx, client.ObjectKeyFromObject(warm), warm); err != nil {
		v.Fatal(err)
	}
	v.has("agents.x-k8s.io/v1beta1", "Sandbox", warm.Status.Sandbox.Name, 1)
}

func (v *village) has(apiVersion, kind, name string, pods int) {
	v.kinds = append(v.kinds, workloadKind{apiVersion, kind, name})
	v.pods[name] = pods
}

// configure makes an AgentRuntime for every workload.
func (v *village) configure() {
	v.Helper()
	for _, w := range v.kinds {
		v.create(&api.AgentRuntime{ObjectMeta: inVillage(w.name), Spec: api.AgentRuntimeSpec{
			Type: api.RuntimeTypeAgent, TargetRef: api.TargetReference{APIVersion: w.apiVersion, Kind: w.kind, Name: w.name},
		}})
	}
}

// rolledOut waits until every AgentRuntime is Active with another hash than before, and
// returns that.
func (v *village) rolledOut(before string) string {
	v.Helper()
	hash := ""
	v.await("all have the configuration after "+before, "?", func(a *api.AgentRuntime) bool {
		s := a.Status
		if s.Phase != api.PhaseActive || s.DesiredConfigHash == before || s.AppliedConfigHash != s.DesiredConfigHash || int(s.ConfiguredPods) != v.pods[a.Name] {
			return false
		}
		if hash == "" {
			hash = s.AppliedConfigHash
		}
		return s.AppliedConfigHash == hash
	})
	return hash
}

// await waits until all workloads have their pods, each of them ready, and all
// AgentRuntimes are as wanted. A hash other than "?" is what the pods have to be made with.
func (v *village) await(what, hash string, wanted func(*api.AgentRuntime) bool) {
	v.Helper()
	v.history.until(v.ctx, v.T, what, func(now moment) bool {
		for _, w := range v.kinds {
			pods := now.of(w.name)
			settled := len(pods) == v.pods[w.name] && !slices.ContainsFunc(pods, func(p pod) bool {
				return !p.live() || !p.ready() || hash != "?" && p.hash != hash
			})
			a := now.runtimes[w.name]
			if !settled || a == nil && hash == "?" || a != nil && !wanted(a) {
				return false
			}
		}
		return true
	})
}

// processesHave asks the processes with which hash they were started.
func (v *village) processesHave(hash string) {
	v.Helper()
	now := v.history.until(v.ctx, v.T, "there is something", func(moment) bool { return true })
	for _, w := range v.kinds {
		for _, p := range now.of(w.name) {
			if said := v.run("exec", "-n", agentsNamespace, p.Name, "--", "sh", "-c", "echo $CONFIG_HASH"); strings.TrimSpace(said) != hash {
				v.Errorf("%s %s: the process of pod %s was started with %q, not %q", w.kind, w.name, p.Name, strings.TrimSpace(said), hash)
			}
		}
	}
}

// madeOnce checks that every workload got its pods once for each hash, and never for
// another.
func (v *village) madeOnce(hashes ...string) {
	v.Helper()
	now := v.history.until(v.ctx, v.T, "there is something", func(moment) bool { return true })
	for _, w := range v.kinds {
		want := map[string]int{}
		for _, hash := range hashes {
			want[hash] = v.pods[w.name]
		}
		if made := now.made[w.name]; !maps.Equal(made, want) {
			v.Errorf("%s %s: pods were made by hash %v, want %v", w.kind, w.name, made, want)
		}
	}
}

// leave deletes the AgentRuntimes. What they put on the workloads goes, and the pods that
// were made with it too.
func (v *village) leave() {
	v.Helper()
	kubectl(v.ctx, v.T, v.cluster, "delete", "agentruntimes", "--all", "-n", agentsNamespace, "--timeout=5m")
	v.await("the pods have no configuration any more", "", func(*api.AgentRuntime) bool { return false })
	left := v.run("get", "deployments,statefulsets,sandboxes", "-n", agentsNamespace, "-o", "yaml", "--show-managed-fields")
	for _, trace := range []string{api.Domain + "/", api.AnnotationRollout, api.FieldManager + "\n"} {
		for line := range strings.Lines(left) {
			if strings.Contains(line, trace) && !strings.Contains(line, "fieldPath: metadata.annotations[") {
				v.Errorf("there is %q left: %s", trace, line)
			}
		}
	}
}

func (v *village) run(args ...string) string {
	v.Helper()
	command := exec.CommandContext(v.ctx, v.cluster.Kubectl(), append([]string{"--kubeconfig", v.cluster.Kubeconfig()}, args...)...)
	said, err := command.CombinedOutput()
	if err != nil {
		v.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return string(said)
}

// controllerIsQuiet checks that the controller has logged no error but of writes that the
// server refused because somebody else had written meanwhile.
func (v *village) controllerIsQuiet() {
	v.Helper()
	for line := range strings.Lines(v.run("logs", "-n", deploy.Namespace, "deployment/"+deploy.ControllerName)) {
		if strings.Contains(line, `"level":"error"`) && !strings.Contains(line, "the object has been modified") {
			v.Error(fmt.Sprint("the controller logged ", line))
		}
	}
}
