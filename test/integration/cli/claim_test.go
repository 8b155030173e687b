// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/localcluster"
)

func TestClaimWaitsUntilReadyAndSaysEachThingOnce(t *testing.T) {
	s := newSpace(t)
	command := s.start(s.ctx, nil, "claim", "py.v3")
	claim := s.nextClaim()

	s.says(claim, extensions.ClaimedSandbox{}, condition(extensions.ConditionBound, metav1.ConditionFalse, "WaitingForMember", "a member is coming up"))
	command.err.await(s, "Waiting: WaitingForMember: a member is coming up\n")
	// Another write that does not change what is waited for.
	s.says(claim, extensions.ClaimedSandbox{}, condition(extensions.ConditionBound, metav1.ConditionFalse, "WaitingForMember", "a member is coming up"),
		notReady("SandboxMissing", "Sandbox does not exist"))
	sandbox := extensions.ClaimedSandbox{Name: "py-a1", UID: "uid", PodIPs: []string{"10.0.0.7"}}
	s.says(claim, sandbox, condition(extensions.ConditionBound, metav1.ConditionTrue, "Adopted", ""), notReady(agents.ReasonDependenciesNotReady, "Pod is Running but not Ready"))
	s.says(claim, sandbox, ready())

	got := command.wait()
	got.expect(t, 0, "Created claim "+claim.Name, "Waiting: DependenciesNotReady: Pod is Running but not Ready", "Claimed sandbox py-a1 (pod IP 10.0.0.7) in ")
	if got.out != claim.Name+"\n" {
		t.Errorf("standard output is %q, want the claim's name alone", got.out)
	}
	if n := strings.Count(got.err, "a member is coming up"); n != 1 {
		t.Errorf("the same thing was said %d times:\n%s", n, got.err)
	}

	if !strings.HasPrefix(claim.Name, "py-v3-") || claim.PoolName() != "py.v3" {
		t.Errorf("claim %s is for pool %q", claim.Name, claim.PoolName())
	}
	if claim.Labels[agents.LabelCreatedBy] != agents.CreatedByGoClient {
		t.Errorf("labels are %v", claim.Labels)
	}
	if _, err := time.Parse(time.RFC3339, claim.Annotations[agents.AnnotationClientFirstRequestedAt]); err != nil {
		t.Error(err)
	}
}

func TestClaimEndsAtWhatWaitingDoesNotMend(t *testing.T) {
	s := newSpace(t)
	command := s.start(s.ctx, nil, "claim", "python", "--name", "analysis")
	s.says(s.nextClaim(), extensions.ClaimedSandbox{}, notReady(extensions.ReasonWarmPoolNotFound, `SandboxWarmPool "python" not found`))
	got := command.wait()
	got.expect(t, 1, `claim analysis gets no sandbox: WarmPoolNotFound: SandboxWarmPool "python" not found`,
		`Next: create the SandboxWarmPool "python"`, "release --kubeconfig "+cluster.Kubeconfig()+" --namespace "+s.name+" analysis gives the claim up")
	if got.out != "" {
		t.Errorf("standard output is %q", got.out)
	}
	s.must(s.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: "analysis"}, &extensions.SandboxClaim{}))
}

func TestClaimThatIsNotReadyInTimeIsKeptAndNamed(t *testing.T) {
	s := newSpace(t)
	got := s.run("claim", "python", "--name", "analysis", "--timeout", "50ms")
	got.expect(t, 1, "claim analysis is not Ready after 50ms: the controller has not said anything about it",
		"see that the controller runs", "the claim is kept", "analysis gives it up")
	s.must(s.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: "analysis"}, &extensions.SandboxClaim{}))
}

func TestInterruptedClaimIsGivenUp(t *testing.T) {
	s := newSpace(t)
	ctx, interrupt := context.WithCancel(s.ctx)
	command := s.start(ctx, nil, "claim", "python")
	claim := s.nextClaim()
	command.err.await(s, "Created claim "+claim.Name)
	interrupt()
	command.wait().expect(t, 130, "Interrupted; giving up claim "+claim.Name)
	err := s.Get(s.ctx, client.ObjectKeyFromObject(claim), &extensions.SandboxClaim{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the claim is still there: %v", err)
	}
}

func TestClaimInterruptedBeforeItsCreationWasAnsweredLeavesNothing(t *testing.T) {
	s := newSpace(t)
	ctx, interrupt := context.WithCancel(s.ctx)
	interrupt()
	s.start(ctx, nil, "claim", "python").wait().expect(t, 130)
	var left extensions.SandboxClaimList
	s.must(s.List(s.ctx, &left, client.InNamespace(s.name)))
	if len(left.Items) != 0 {
		t.Errorf("%d claims are left", len(left.Items))
	}
}

func TestClaimDeletedByAnotherEndsTheWait(t *testing.T) {
	s := newSpace(t)
	command := s.start(s.ctx, nil, "claim", "python")
	claim := s.nextClaim()
	command.err.await(s, "Created claim")
	s.must(s.Delete(s.ctx, claim))
	command.wait().expect(t, 1, "was deleted while it waited")
}

func TestClaimOfATakenNameLeavesTheOtherAlone(t *testing.T) {
	s := newSpace(t)
	first := s.start(s.ctx, nil, "claim", "python", "--name", "analysis")
	s.says(s.nextClaim(), extensions.ClaimedSandbox{Name: "s"}, ready())
	first.wait().expect(t, 0)
	s.run("claim", "python", "--name", "analysis").expect(t, 1, `there is a claim "analysis"`, "choose another --name")
	s.must(s.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: "analysis"}, &extensions.SandboxClaim{}))
}

func TestClaimOutlivesARestartOfTheAPIServer(t *testing.T) {
	s := newSpace(t)
	command := s.start(s.ctx, nil, "claim", "python")
	claim := s.nextClaim()
	command.err.await(s, "Created claim")
	s.must(cluster.Part(localcluster.APIServer).Restart(s.ctx))
	s.says(claim, extensions.ClaimedSandbox{Name: "python-a"}, ready())
	command.wait().expect(t, 0, "Claimed sandbox python-a")
	// The tests that follow find a server that serves everything again.
	config, err := cluster.RESTConfig()
	s.must(err)
	s.must(deploy.Install(s.ctx, config))
}

func TestRequestsThatTheClusterRefusesAreExplained(t *testing.T) {
	s := newSpace(t)
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"a namespace that does not exist": {
			[]string{"claim", "python", "--namespace", "nowhere"}, []string{`there is no namespace "nowhere"`, "kubectl create namespace nowhere"}},
		"a name that is too long": {
			[]string{"claim", "python", "--name", strings.Repeat("a", 64)}, []string{"no more than 63 characters", "Next: choose another --name"}},
		"no permission": {
			[]string{"claim", "python", "--as", "nobody"}, []string{"forbidden", "ask an administrator"}},
		"no credentials": {
			[]string{"ls", "--kubeconfig", stranger(t)}, []string{"does not accept these credentials"}},
		"no server": {
			[]string{"ls", "--server", "https://127.0.0.1:1"}, []string{"the API server cannot be reached", "--context"}},
		"a context that does not exist": {
			[]string{"ls", "--context", "nowhere"}, []string{"the kubeconfig does not lead to a cluster", "kubectl config get-contexts"}},
	} {
		t.Run(name, func(t *testing.T) { s.in(t).run(c.args...).expect(t, 1, c.want...) })
	}
}

// stranger is a kubeconfig whose credentials the API server does not know.
func stranger(t *testing.T) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "wrong"}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
