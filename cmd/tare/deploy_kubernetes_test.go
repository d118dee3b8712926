package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// The types below are the part of Kubernetes' API that this test checks; package manifests of e2e decodes the documents strictly,
// by the types of Kubernetes.
type (
	kubeMeta struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
	}
	kubeSelector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	kubeSecret struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   kubeMeta
		Type       string
		StringData map[string]string `yaml:"stringData"`
	}
	kubeService struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   kubeMeta
		Spec       struct {
			ClusterIP                string `yaml:"clusterIP"`
			PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
			Selector                 map[string]string
			Ports                    []struct {
				Name       string
				Port       int
				TargetPort string `yaml:"targetPort"`
			}
		}
	}
	kubeBudget struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   kubeMeta
		Spec       struct {
			MaxUnavailable int `yaml:"maxUnavailable"`
			Selector       kubeSelector
		}
	}
	kubeWorkload struct { // a StatefulSet or a Deployment
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   kubeMeta
		Spec       struct {
			ServiceName         string `yaml:"serviceName"`
			Replicas            int
			Ordinals            struct{ Start int }
			PodManagementPolicy string `yaml:"podManagementPolicy"`
			Selector            kubeSelector
			Template            struct {
				Metadata kubeMeta
				Spec     kubePod
			}
			VolumeClaimTemplates []struct {
				Metadata kubeMeta
				Spec     struct {
					AccessModes []string `yaml:"accessModes"`
					Resources   kubeResources
				}
			} `yaml:"volumeClaimTemplates"`
		}
	}
	kubePod struct {
		TerminationGracePeriodSeconds int             `yaml:"terminationGracePeriodSeconds"`
		AutomountServiceAccountToken  *bool           `yaml:"automountServiceAccountToken"`
		SecurityContext               map[string]any  `yaml:"securityContext"`
		InitContainers                []kubeContainer `yaml:"initContainers"`
		Containers                    []kubeContainer
		Volumes                       []struct {
			Name   string
			Secret struct {
				SecretName string `yaml:"secretName"`
			}
		}
	}
	kubeContainer struct {
		Name, Image   string
		RestartPolicy string `yaml:"restartPolicy"`
		Args          []string
		Env           []struct {
			Name, Value string
			ValueFrom   struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		}
		EnvFrom []struct {
			SecretRef struct{ Name string } `yaml:"secretRef"`
		} `yaml:"envFrom"`
		Ports []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		ReadinessProbe  kubeProbe  `yaml:"readinessProbe"`
		LivenessProbe   *kubeProbe `yaml:"livenessProbe"`
		StartupProbe    *kubeProbe `yaml:"startupProbe"`
		Resources       kubeResources
		SecurityContext map[string]any `yaml:"securityContext"`
		VolumeMounts    []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	kubeProbe struct {
		HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
		Exec             struct{ Command []string }
		PeriodSeconds    int `yaml:"periodSeconds"`
		FailureThreshold int `yaml:"failureThreshold"`
	}
	kubeResources struct{ Requests, Limits map[string]string }
)

// A kubeCluster has the objects of all manifests, by name.
type kubeCluster struct {
	secrets   map[string]kubeSecret
	services  map[string]kubeService
	workloads map[string]kubeWorkload
	budgets   map[string]kubeBudget
	policies  map[string]bool
}

// apiVersions are the API versions of the kinds.
var apiVersions = map[string]string{
	"Secret": "v1", "Service": "v1", "PodDisruptionBudget": "policy/v1", "NetworkPolicy": "networking.k8s.io/v1", "StatefulSet": "apps/v1", "Deployment": "apps/v1",
}

const kubeNamespace = "tare"

// readManifests decodes all manifests.
func readManifests(t *testing.T) *kubeCluster {
	t.Helper()
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	must(t, err)
	if len(files) < 3 {
		t.Fatalf("%d manifests", len(files))
	}
	k := &kubeCluster{map[string]kubeSecret{}, map[string]kubeService{}, map[string]kubeWorkload{}, map[string]kubeBudget{}, map[string]bool{}}
	for _, name := range files {
		text, err := os.ReadFile(name)
		must(t, err)
		documents := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var node yaml.Node
			err := documents.Decode(&node)
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			k.add(t, name, &node)
		}
	}
	return k
}

func (k *kubeCluster) add(t *testing.T, file string, node *yaml.Node) {
	t.Helper()
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   kubeMeta
	}
	must(t, node.Decode(&head))
	where := file + ": " + head.Kind + " " + head.Metadata.Name
	if want := apiVersions[head.Kind]; head.APIVersion != want || want == "" {
		t.Errorf("%s: apiVersion %q, want %q", where, head.APIVersion, want)
	}
	if head.Metadata.Namespace != kubeNamespace || head.Metadata.Name == "" {
		t.Errorf("%s: it is in namespace %q", where, head.Metadata.Namespace)
	}
	name := head.Metadata.Name
	switch head.Kind {
	case "Secret":
		addDocument(t, where, node, k.secrets, name)
	case "Service":
		addDocument(t, where, node, k.services, name)
	case "PodDisruptionBudget":
		addDocument(t, where, node, k.budgets, name)
	case "NetworkPolicy":
		k.policies[name] = true
	case "StatefulSet", "Deployment":
		addDocument(t, where, node, k.workloads, name)
	}
}

// addDocument decodes a document and adds it, unless there is one of the name.
func addDocument[T any](t *testing.T, where string, node *yaml.Node, all map[string]T, name string) {
	t.Helper()
	var v T
	if err := node.Decode(&v); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	if _, found := all[name]; found {
		t.Errorf("%s: there are two", where)
	}
	all[name] = v
}

// TestKubernetes checks the manifests: the objects, keys and ports that they refer to, the options of Tare's commands, and the
// paths of probes. Each workload has a budget, and each that has a service a network policy.
func TestKubernetes(t *testing.T) {
	k := readManifests(t)
	for name, w := range k.workloads {
		labels := w.Spec.Template.Metadata.Labels
		if !maps.Equal(w.Spec.Selector.MatchLabels, labels) {
			t.Errorf("%s: its selector is %v, its pods have %v", name, w.Spec.Selector.MatchLabels, labels)
		}
		if w.Kind == "StatefulSet" && k.services[w.Spec.ServiceName].Spec.ClusterIP != "None" {
			t.Errorf("%s: %q is no headless service", name, w.Spec.ServiceName)
		}
		for _, c := range slices.Concat(w.Spec.Template.Spec.InitContainers, w.Spec.Template.Spec.Containers) {
			k.checkContainer(t, name, &w, &c)
		}
		k.checkVolumes(t, name, &w)
		if _, ok := k.budgets[name]; !ok {
			t.Errorf("%s has no budget", name)
		}
		if _, ok := k.services[name]; ok && !k.policies[name] {
			t.Errorf("%s has no network policy", name)
		}
	}
	for name, s := range k.services {
		w := k.selected(s.Spec.Selector)
		if w == nil {
			t.Errorf("service %s selects no pods", name)
			continue
		}
		for _, p := range s.Spec.Ports {
			if containerPort(w, p.TargetPort) == 0 {
				t.Errorf("service %s: the pods have no port %s", name, p.TargetPort)
			}
		}
		checkHostNames(t, name, w)
	}
	for name, b := range k.budgets {
		if k.selected(b.Spec.Selector.MatchLabels) == nil || b.Spec.MaxUnavailable != 1 {
			t.Errorf("budget %s: %+v", name, b.Spec)
		}
	}
	checkEndpoints(t, k)
	checkExampleAccounts(t, k)
}

// selected returns the workload with pods that a selector matches.
func (k *kubeCluster) selected(selector map[string]string) *kubeWorkload {
	for _, w := range k.workloads {
		if len(selector) > 0 && maps.Equal(selector, w.Spec.Template.Metadata.Labels) {
			return &w
		}
	}
	return nil
}

// checkHostNames expects that Tare's HTTP server accepts each name of its service: those in other namespaces too, where monitoring is.
func checkHostNames(t *testing.T, service string, w *kubeWorkload) {
	t.Helper()
	for _, c := range w.Spec.Template.Spec.Containers {
		if !strings.HasPrefix(c.Image, "registry.example/tare:") {
			continue
		}
		var hosts []string
		for _, a := range c.Args {
			if names, ok := strings.CutPrefix(a, "--http-allowed-hosts="); ok {
				hosts = strings.Split(names, ",")
			}
		}
		inNamespace := service + "." + kubeNamespace
		for _, name := range []string{service, inNamespace, inNamespace + ".svc", inNamespace + ".svc.cluster.local"} {
			if !slices.Contains(hosts, name) {
				t.Errorf("service %s: requests for the host %s are refused", service, name)
			}
		}
	}
}

func containerPort(w *kubeWorkload, name string) int {
	for _, c := range w.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name {
				return p.ContainerPort
			}
		}
	}
	return 0
}

func (k *kubeCluster) checkVolumes(t *testing.T, name string, w *kubeWorkload) {
	t.Helper()
	volumes := make(map[string]string) // secrets by volume; "" for a claim
	for _, v := range w.Spec.Template.Spec.Volumes {
		volumes[v.Name] = v.Secret.SecretName
		if _, ok := k.secrets[v.Secret.SecretName]; !ok {
			t.Errorf("%s: volume %s: there is no secret %q", name, v.Name, v.Secret.SecretName)
		}
	}
	for _, v := range w.Spec.VolumeClaimTemplates {
		volumes[v.Metadata.Name] = ""
	}
	for _, c := range w.Spec.Template.Spec.Containers {
		for _, ref := range c.EnvFrom {
			if _, ok := k.secrets[ref.SecretRef.Name]; !ok {
				t.Errorf("%s: there is no secret %q", name, ref.SecretRef.Name)
			}
		}
		for _, m := range c.VolumeMounts {
			secret, ok := volumes[m.Name]
			if !ok {
				t.Errorf("%s: there is no volume %s", name, m.Name)
			}
			if secret != "" && !m.ReadOnly {
				t.Errorf("%s: %s is writable", name, m.MountPath)
			}
			for _, a := range c.Args {
				_, file, _ := strings.Cut(a, "=")
				if key, under := strings.CutPrefix(file, m.MountPath+"/"); under && secret != "" && k.secrets[secret].StringData[key] == "" {
					t.Errorf("%s: %s: secret %s has no key %s", name, a, secret, key)
				}
			}
		}
		for _, a := range c.Args {
			if _, file, _ := strings.Cut(a, "=/"); file != "" && !slices.ContainsFunc(c.VolumeMounts, func(m struct {
				Name      string
				MountPath string `yaml:"mountPath"`
				ReadOnly  bool   `yaml:"readOnly"`
			},
			) bool {
				return "/"+file == m.MountPath || strings.HasPrefix("/"+file, m.MountPath+"/")
			}) {
				t.Errorf("%s: %s is in no volume", name, a)
			}
		}
	}
}

func (k *kubeCluster) checkContainer(t *testing.T, name string, w *kubeWorkload, c *kubeContainer) {
	t.Helper()
	probes := []*kubeProbe{c.LivenessProbe, c.StartupProbe}
	if c.Args != nil || c.Name == "thanos" {
		probes = append(probes, &c.ReadinessProbe)
	}
	for _, p := range probes {
		if p == nil || slices.Equal(p.Exec.Command, []string{"/tare", "ready"}) && p.PeriodSeconds > 0 {
			continue
		}
		if (p.HTTPGet.Path != "/-/ready" && p.HTTPGet.Path != "/-/healthy") || containerPort(w, p.HTTPGet.Port) == 0 || p.PeriodSeconds == 0 {
			t.Errorf("%s: the probe %+v has no known path or port", name, p)
		}
	}
	if c.Resources.Limits["memory"] == "" || strings.HasSuffix(c.Image, ":latest") || !strings.Contains(c.Image, ":") {
		t.Errorf("%s: want a memory limit and an image with a version: %s", name, c.Image)
	}
	if c.SecurityContext["readOnlyRootFilesystem"] != true || c.SecurityContext["allowPrivilegeEscalation"] != false || w.Spec.Template.Spec.SecurityContext["runAsNonRoot"] != true {
		t.Errorf("%s: container %s may write its files, gain privileges or be root", name, c.Name)
	}
	if !strings.HasPrefix(c.Image, "registry.example/tare:") {
		return
	}
	grace := time.Duration(w.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	ports := make(map[string]config.Address)
	var drain time.Duration
	switch c.Args[0] {
	case "store":
		k.checkStore(t, name, w, c)
		return
	case "serve":
		options := config.NewServe()
		loadArgs(t, name, options, c.Args[1:], nil)
		ports["mysql"], ports["http"], drain = options.Listen, options.HTTP, options.DrainTimeout
		checkMemory(t, name, c, options)
		if !slices.Contains([]string{"", "Always"}, c.RestartPolicy) || c.RestartPolicy != "" != (w.Metadata.Name == "shop") {
			t.Errorf("%s: restartPolicy %q", name, c.RestartPolicy)
		}
	case "frontend":
		options := config.NewFrontend()
		loadArgs(t, name, options, c.Args[1:], nil)
		ports["http"], drain = options.HTTP, options.DrainTimeout
	default:
		t.Errorf("%s: arguments %q", name, c.Args)
	}
	for port, address := range ports {
		if strings.HasPrefix(string(address), "127.0.0.1:") && c.RestartPolicy != "" {
			continue // of a sidecar
		}
		if !strings.HasSuffix(string(address), ":"+strconv.Itoa(containerPort(w, port))) {
			t.Errorf("%s: --%s is %s, the container's port %d", name, port, address, containerPort(w, port))
		}
	}
	if drain >= grace {
		t.Errorf("%s: pods are killed within --drain-timeout", name)
	}
}

// checkMemory compares the limits of a gateway's container with the formula of docs/operate/sizing.md, with TLS on both legs.
func checkMemory(t *testing.T, name string, c *kubeContainer, options *config.Serve) {
	t.Helper()
	connections := float64(options.Gateway.MaxConnections)
	heap := 5 + float64(options.PlanCacheBytes+options.CallSampleBytes)/(1<<20) + float64(options.Log.Options.RingBytes)/(1<<20) + (16+2*51)*connections/1024
	rss := 32 + 1.5*heap + 6*connections/1024
	limit, err := strconv.ParseFloat(strings.TrimSuffix(c.Resources.Limits["memory"], "Mi"), 64)
	if err != nil || limit < rss {
		t.Errorf("%s: the memory limit is %s, the gateway may take %.0f MiB (%v)", name, c.Resources.Limits["memory"], rss, err)
	}
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" {
			if soft, err := strconv.ParseFloat(strings.TrimSuffix(e.Value, "MiB"), 64); err != nil || soft > 0.9*limit || soft < heap {
				t.Errorf("%s: GOMEMLIMIT is %s with a limit of %.0f MiB and a heap of %.0f MiB (%v)", name, e.Value, limit, heap, err)
			}
			return
		}
	}
	t.Errorf("%s: GOMEMLIMIT is missing", name)
}

// checkStore checks an instance of tare store: its shard, ports and times.
func (k *kubeCluster) checkStore(t *testing.T, name string, w *kubeWorkload, c *kubeContainer) {
	t.Helper()
	var environ []string
	for _, e := range c.Env {
		if e.Value != "" {
			environ = append(environ, e.Name+"="+strings.ReplaceAll(e.Value, "$(POD_INDEX)", "2"))
		}
	}
	options := loadStoreArgs(t, name, c.Args[1:], environ)
	if want := fmt.Sprintf("2/%d", w.Spec.Replicas); options.Gateway.Shard.String() != want || w.Spec.Ordinals.Start != 1 {
		t.Errorf("%s: shard %s of %d pods from %d, want %s from 1", name, options.Gateway.Shard, w.Spec.Replicas, w.Spec.Ordinals.Start, want)
	}
	for port, address := range map[string]config.Address{"grpc": options.GRPC, "http": options.HTTP} {
		if !strings.HasSuffix(string(address), ":"+strconv.Itoa(containerPort(w, port))) {
			t.Errorf("%s: --%s is %s, the container's port %d", name, port, address, containerPort(w, port))
		}
	}
	if options.DrainTimeout.Seconds() >= float64(w.Spec.Template.Spec.TerminationGracePeriodSeconds) {
		t.Errorf("%s: pods are killed within --drain-timeout", name)
	}
	if port := w.Spec.Template.Metadata.Annotations["prometheus.io/port"]; port != strconv.Itoa(containerPort(w, "http")) {
		t.Errorf("%s: Prometheus scrapes port %s", name, port)
	}
}

// loadStoreArgs loads the options of tare store.
func loadStoreArgs(t *testing.T, where string, args, environ []string) *config.Store {
	t.Helper()
	options := config.NewStore()
	loadArgs(t, where, options, args, environ)
	return options
}

// loadArgs loads options from arguments of the form --name=value and variables.
func loadArgs(t *testing.T, where string, options config.Command, args, environ []string) {
	t.Helper()
	flags := make(map[string]string)
	for _, a := range args {
		flag, value, ok := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if !ok || flags[flag] != "" || flag != "config" && options.Set().Lookup(flag) == nil {
			t.Errorf("%s: argument %s is given twice, has no value or is no option", where, a)
		}
		flags[flag] = value
	}
	if warnings, err := options.Load(config.Input{Flags: flags, Environ: environ}); err != nil || len(warnings) > 0 {
		t.Errorf("%s: %v, %v", where, err, warnings)
	}
	if err := options.Ready(); err != nil {
		t.Errorf("%s: %v", where, err)
	}
}

// checkEndpoints expects the address of each instance of the store among the querier's endpoints.
func checkEndpoints(t *testing.T, k *kubeCluster) {
	t.Helper()
	var got, want []string
	for _, a := range k.workloads["thanos-query"].Spec.Template.Spec.Containers[0].Args {
		if address, ok := strings.CutPrefix(a, "--endpoint-strict="); ok {
			got = append(got, address)
		}
	}
	store := k.workloads["tare-store"]
	for i := range store.Spec.Replicas {
		want = append(want, fmt.Sprintf("%s-%d.%s.%s.svc:%d", "tare-store", store.Spec.Ordinals.Start+i, store.Spec.ServiceName, kubeNamespace, containerPort(&store, "grpc")))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the querier's endpoints are %v, want %v", got, want)
	}
}

// checkExampleAccounts expects that the example's token is that of its hash.
func checkExampleAccounts(t *testing.T, k *kubeCluster) {
	t.Helper()
	sum := sha256.Sum256([]byte("replace-this-token"))
	for _, secret := range []string{"tare-store-accounts", "tare-accounts"} {
		var accounts map[string]struct {
			Role  string
			Token string `yaml:"token_sha256"`
		}
		must(t, yaml.Unmarshal([]byte(k.secrets[secret].StringData["accounts.yaml"]), &accounts))
		if accounts["anonymous"].Role != "metrics" || accounts["grafana"].Role != "viewer" || accounts["grafana"].Token != hex.EncodeToString(sum[:]) {
			t.Errorf("accounts of %s: %v", secret, accounts)
		}
	}
}

// TestStoreUnit checks the command line of the unit of a fleet's instance, and its configuration.
func TestStoreUnit(t *testing.T) {
	text, err := os.ReadFile("../../deploy/systemd/tare-store@.service")
	must(t, err)
	command := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/tare store (.*)$`).FindStringSubmatch(string(text))
	shards := regexp.MustCompile(`(?m)^Environment=SHARDS=(\d+)$`).FindStringSubmatch(string(text))
	if command == nil || shards == nil || !strings.Contains(string(text), "\nStateDirectory=tare-store/%i\n") {
		t.Fatalf("%q, %q", command, shards)
	}
	line := strings.NewReplacer("%i", "2", "${SHARDS}", shards[1], "/etc/tare/store.yaml", "../../deploy/systemd/store.yaml").Replace(command[1])
	options := loadStoreArgs(t, "tare-store@.service", strings.Fields(line), nil)
	if options.Gateway.Shard.String() != "2/3" || options.DataDir != "/var/lib/tare-store/2" || options.GRPC == "" || options.GRPCClientCA == "" {
		t.Errorf("shard %s, data directory %s, gRPC %s", options.Gateway.Shard, options.DataDir, options.GRPC)
	}
}
