// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/launch"
	"github.com/berthdev/berth/internal/workload"
)

type agentsRunOptions struct {
	spec    launch.Spec
	kind    string
	runType string
	mtls    string
	env     []pair
	labels  []pair
	port    int64
	service int64
	user    int64
	output  listOptions
	timeout time.Duration
	detach  bool
	dryRun  bool
}

// What --kind, --type and --mtls-mode can be.
var (
	runKinds = []string{"sandbox", "deployment", "statefulset"}
	runTypes = []string{string(api.RuntimeTypeAgent), string(api.RuntimeTypeTool)}
	runMTLS  = []string{string(api.MTLSDisabled), string(api.MTLSPermissive), string(api.MTLSStrict)}
)

func (o *agentsRunOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	o.port, o.service, o.user = 8000, 8080, -1
	o.spec.CPU, o.spec.Memory = resource.MustParse("500m"), resource.MustParse("1Gi")
	flags.StringVar(&o.spec.Image, "image", "", "the image of the agent's container")
	choiceFlag(cmd, &o.kind, "kind", runKinds, "what runs the agent")
	choiceFlag(cmd, &o.runType, "type", runTypes, "what it is")
	choiceFlag(cmd, &o.mtls, "mtls-mode", runMTLS, "whether it speaks mutual TLS")
	_ = flags.Set("mtls-mode", string(api.MTLSPermissive)) // one of the choices
	flags.Lookup("mtls-mode").Changed, flags.Lookup("mtls-mode").DefValue = false, string(api.MTLSPermissive)
	flags.Var(pairs{&o.env, checkVariable, "write it as --env NAME=VALUE"}, "env", "an environment variable of the container; may be given again")
	flags.Var(port{&o.port}, "port", "the port that the container listens on; the variable PORT tells it")
	flags.Var(port{&o.service}, "service-port", "the port of the Service")
	flags.Var(amount{&o.spec.Storage}, "storage", "the size of a volume, such as 1Gi; by default there is none")
	flags.StringVar(&o.spec.Mount, "mount", "/data", "where the volume is in the container")
	flags.Var(amount{&o.spec.CPU}, "cpu", "how much CPU it may use")
	flags.Var(amount{&o.spec.Memory}, "memory", "how much memory it may use")
	flags.Var(count{&o.user, "write the number of a user, such as 1000; 0 permits root"}, "run-as-user",
		"the number of the user that the container runs as; by default the image's, which must not be root; 0 permits root")
	flags.Lookup("run-as-user").DefValue = ""
	flags.StringVar(&o.spec.ServiceAccount, "service-account", "", "a ServiceAccount that exists; by default one is made, with no rights")
	flags.StringVar(&o.spec.ImagePullSecret, "image-pull-secret", "", "a Secret with access to the image's registry")
	flags.Var(pairs{&o.labels, checkAgentLabel, "write it as --label KEY=VALUE"}, "label", "a label of all of its objects; may be given again")
	o.output.addOutput(cmd, "json, yaml or name: print the objects, and what is said meanwhile on standard error", "json", "yaml", outputName)
	waitFlag(flags, &o.timeout, "how long to wait until it is configured, and then until it is Ready")
	flags.BoolVar(&o.detach, "detach", false, "return when it is configured and started, and do not wait until it is Ready")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print the objects as YAML, or as -o says, and make nothing")
}

// read checks what the flags say and makes the spec.
func (o *agentsRunOptions) read(p *program, cmd *cobra.Command, args []string, namespace string) error {
	dash := cmd.ArgsLenAtDash()
	if dash >= 0 {
		args, o.spec.Command = args[:dash], args[dash:]
	}
	if len(args) != 1 {
		return usage(cmd, fmt.Errorf("agents run needs a name for the agent, and got %d arguments", len(args)))
	}
	s := &o.spec
	s.Namespace, s.Name, s.Run = namespace, args[0], rand.String(10)
	switch name := joined(validation.IsDNS1035Label(s.Name)); {
	case name != nil:
		return &problem{cause: fmt.Errorf("%q cannot be the name of an agent: %w", s.Name, name),
			next: []string{"begin with a small letter, and use small letters, digits and dashes, such as researcher-1"}}
	case len(s.Name) > launch.MaxNameLength:
		return &problem{cause: fmt.Errorf("%q cannot be the name of an agent: it must have no more than %d characters", s.Name, launch.MaxNameLength),
			next: []string{"choose a shorter one"}}
	case s.Image == "":
		return &problem{cause: errors.New("agents run needs an image"), next: []string{p.command("agents run", s.Name, "--image IMAGE")}}
	case !path.IsAbs(s.Mount) || strings.Contains(s.Mount, ":"):
		return &problem{cause: fmt.Errorf("--mount %q: it is not an absolute path", s.Mount), next: []string{"write it as --mount /data"}}
	case cmd.Flags().Changed("mount") && s.Storage.IsZero():
		return &problem{cause: errors.New("--mount says where a volume is, and there is none"), next: []string{"say how big it is: --storage 1Gi"}}
	}
	s.Kind = map[string]string{"sandbox": workload.Sandbox, "deployment": workload.Deployment, "statefulset": workload.StatefulSet}[o.kind]
	s.Type, s.MTLS = api.RuntimeType(o.runType), api.MTLSMode(o.mtls)
	s.Port, s.ServicePort = int32(o.port), int32(o.service)
	for _, v := range o.env {
		s.Env = append(s.Env, corev1.EnvVar{Name: v.key, Value: v.value})
	}
	s.Labels = mapOf(o.labels)
	if o.user >= 0 {
		s.RunAsUser = &o.user
	}
	return nil
}

// checkAgentLabel refuses the labels that say what an agent is.
func checkAgentLabel(p pair) error {
	domain, _, _ := strings.Cut(p.key, "/")
	if slices.Contains([]string{launch.LabelName, launch.LabelComponent, launch.LabelManagedBy}, p.key) || domain == api.Domain || domain == "berth.dev" {
		return errors.New("this label is set by what it tells of")
	}
	return checkLabel(p)
}

// choice is a flag with a few values.
type choice struct {
	value *string
	of    []string
}

func choiceFlag(cmd *cobra.Command, value *string, name string, of []string, usage string) {
	*value = of[0]
	cmd.Flags().Var(choice{value, of}, name, usage+": "+strings.Join(of, ", "))
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is added above
	}
}

func (c choice) String() string { return *c.value }
func (c choice) Type() string   { return "string" }
func (c choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return badValue{"there is no such choice", "write one of " + strings.Join(c.of, ", ")}
	}
	*c.value = text
	return nil
}

// port is the number of a port.
type port struct{ value *int64 }

func (p port) String() string { return strconv.FormatInt(*p.value, 10) }
func (p port) Type() string   { return "number" }
func (p port) Set(text string) error {
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil || value < 1 || value > 65535 {
		return badValue{"it is not a number from 1 to 65535", "write a port, such as 8000"}
	}
	*p.value = value
	return nil
}

// amount is an amount of a resource, more than none.
type amount struct{ value *resource.Quantity }

var _ pflag.Value = amount{}

func (a amount) String() string {
	if a.value.IsZero() {
		return ""
	}
	return a.value.String()
}
func (a amount) Type() string { return "amount" }
func (a amount) Set(text string) error {
	value, err := resource.ParseQuantity(text)
	if err != nil || value.Sign() <= 0 {
		return badValue{"it is not an amount of more than 0", "write it as Kubernetes does, such as 500m or 1Gi"}
	}
	*a.value = value
	return nil
}
