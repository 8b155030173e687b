// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentruntime "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/localcluster"
)

// cluster is the cluster and the namespace that a command works on.
type cluster struct {
	client.WithWatch
	config    *rest.Config
	namespace string
}

// connect finds the cluster that the flags and the kubeconfig name. It makes no request.
func (p *program) connect() (*cluster, error) {
	loader := p.flags.ToRawKubeConfigLoader()
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, p.badKubeconfig(err)
	}
	config, err := p.flags.ToRESTConfig()
	if err != nil {
		return nil, p.badKubeconfig(err)
	}
	if raw, err := loader.RawConfig(); err == nil && len(raw.Clusters) == 0 && config.Host == clientcmd.ClusterDefaults.Server {
		return nil, p.noCluster()
	}
	config.UserAgent = fmt.Sprintf("berth/%s (%s/%s)", clientVersion(), runtime.GOOS, runtime.GOARCH)
	config.QPS = -1 // a command makes a few requests; the server has limits of its own
	config.WarningHandler = rest.NewWarningWriter(p.streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})

	scheme, mapper, err := kinds()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &cluster{WithWatch: c, config: config, namespace: namespace}, nil
}

// kinds are those that commands work on. They are listed rather than discovered, which would cost every
// command two requests.
func kinds() (*kruntime.Scheme, meta.RESTMapper, error) {
	scheme := kruntime.NewScheme()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, add := range []func(*kruntime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, agents.AddToScheme, extensions.AddToScheme, agentruntime.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, nil, err
		}
	}
	for kind, resource := range map[schema.GroupVersionKind]string{
		corev1.SchemeGroupVersion.WithKind("Pod"):                         "pods",
		corev1.SchemeGroupVersion.WithKind("Event"):                       "events",
		corev1.SchemeGroupVersion.WithKind("Service"):                     "services",
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"):              "serviceaccounts",
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):       "persistentvolumeclaims",
		appsv1.SchemeGroupVersion.WithKind("Deployment"):                  "deployments",
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):                  "replicasets",
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"):                 "statefulsets",
		agentruntime.GroupVersion.WithKind(agentruntime.AgentRuntimeKind): "agentruntimes",
		agents.GroupVersion.WithKind(agents.SandboxKind):                  "sandboxes",
		extensions.GroupVersion.WithKind(extensions.SandboxClaimKind):     "sandboxclaims",
		extensions.GroupVersion.WithKind(extensions.SandboxWarmPoolKind):  "sandboxwarmpools",
		extensions.GroupVersion.WithKind(extensions.SandboxTemplateKind):  "sandboxtemplates",
	} {
		group := kind.GroupVersion()
		mapper.AddSpecific(kind, group.WithResource(resource), group.WithResource(strings.ToLower(kind.Kind)), meta.RESTScopeNamespace)
	}
	return scheme, mapper, nil
}

// get reads one object of the namespace.
func (c *cluster) get(ctx context.Context, name string, into client.Object) error {
	return c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, into)
}

func (p *program) badKubeconfig(err error) error {
	next := []string{"kubectl config get-contexts shows what it holds", "name another file with --kubeconfig or KUBECONFIG"}
	_, missing := p.kubeconfigs()
	switch {
	case missing != "" && errors.Is(err, os.ErrNotExist):
		return &problem{cause: errors.New(missing), next: next[1:]}
	case missing != "":
		err = fmt.Errorf("%w; and %s", err, missing)
	}
	return &problem{cause: fmt.Errorf("the kubeconfig does not lead to a cluster: %w", err), next: next}
}

func (p *program) noCluster() error {
	next := []string{"name a kubeconfig with --kubeconfig or KUBECONFIG", p.name + " local up starts a cluster on this machine"}
	if local, err := localcluster.Find(localcluster.Options{}); err == nil {
		next = []string{"export KUBECONFIG=" + local.Kubeconfig() + " is for the local cluster"}
	}
	there, missing := p.kubeconfigs()
	var why []string
	if len(there) > 0 {
		why = append(why, "there is no cluster in "+strings.Join(there, " and "))
	}
	if missing != "" {
		why = append(why, missing)
	}
	if len(why) == 0 {
		why = []string{"there is no kubeconfig"}
	}
	return &problem{cause: errors.New("no cluster is configured: " + strings.Join(why, ", and ")), next: next}
}

// kubeconfigs are the files that there are to find a cluster in, and what is to say of those that were named
// and do not exist. That there is none in the default place needs no words.
func (p *program) kubeconfigs() (there []string, missing string) {
	from := "--kubeconfig"
	files := []string{*p.flags.KubeConfig}
	if files[0] == "" {
		from, files = clientcmd.RecommendedConfigPathEnvVar, filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	}
	if len(files) == 0 {
		from, files = "", []string{clientcmd.RecommendedHomeFile}
	}
	var gone []string
	for _, file := range files {
		_, err := os.Stat(file)
		switch {
		case file == "", slices.Contains(gone, file), slices.Contains(there, file):
		case err == nil:
			there = append(there, file)
		case errors.Is(err, os.ErrNotExist):
			gone = append(gone, file)
		}
	}
	switch {
	case from == "" || len(gone) == 0:
		return there, ""
	case len(gone) == 1:
		return there, from + " names " + gone[0] + ", which does not exist"
	}
	return there, from + " names " + strings.Join(gone, " and ") + ", which do not exist"
}
