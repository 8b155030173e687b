// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"testing"

	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
)

func TestAControllerWritesOnceUnderItsOwnName(t *testing.T) {
	c, namespace := setup(t)
	running := managertest.Start(t, cluster, managertest.Options{Controllers: []manager.Controller{signing(namespace, "first")}})
	requests := running.Requests(t, "signer", func() {
		create(t, c, namespace, "a")
		what, is := signedBy("first")
		await(t, c, namespace, "a", what, is)
	})
	if writes := clustertest.Writes(requests); len(writes) != 1 || writes["patch sandboxes"] != 1 {
		t.Errorf("wrote %v, want one patch", writes)
	}
	if len(requests) != 1 {
		t.Errorf("made requests %v, want one", requests)
	}
}

func TestARestartedControllerSeesWhatIsThere(t *testing.T) {
	c, namespace := setup(t)
	running := managertest.Start(t, cluster, managertest.Options{Controllers: []manager.Controller{signing(namespace, "first")}})
	running.Kill(t)
	create(t, c, namespace, "a")
	running.Restart(t)
	what, is := signedBy("first")
	await(t, c, namespace, "a", what, is)
}
