package manifests

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A kubeSchema checks what the types of Kubernetes' API leave open and its server would refuse, or accept without
// effect: names, enumerations, ranges, and references between the objects. kubectl --dry-run=client does not see these.
type kubeSchema struct {
	where    string // the current object
	problems []string

	services  []*core.Service
	secrets   []*core.Secret
	workloads []*kubePods
}

// kubePods are the pods of a Deployment or StatefulSet.
type kubePods struct {
	name, namespace string
	template        *core.PodTemplateSpec
	claims          []core.PersistentVolumeClaim
}

// kubeProblems returns the problems of objects that are applied together.
func kubeProblems(objects []runtime.Object) []string {
	k := &kubeSchema{}
	names := make(map[string]bool)
	for _, o := range objects {
		m := o.(meta.Object)
		k.where = strings.TrimPrefix(fmt.Sprintf("%T %s", o, m.GetName()), "*")
		if names[k.where] {
			k.add("there are two")
		}
		names[k.where] = true
		k.meta(m)
		switch o := o.(type) {
		case *core.Service:
			k.services = append(k.services, o)
		case *core.Secret:
			k.secrets = append(k.secrets, o)
			k.secret(o)
		case *apps.Deployment:
			k.enum("strategy", o.Spec.Strategy.Type, "", apps.RecreateDeploymentStrategyType, apps.RollingUpdateDeploymentStrategyType)
			k.pods(o, o.Spec.Replicas, o.Spec.Selector, &o.Spec.Template, nil)
		case *apps.StatefulSet:
			k.enum("podManagementPolicy", o.Spec.PodManagementPolicy, "", apps.OrderedReadyPodManagement, apps.ParallelPodManagement)
			k.enum("updateStrategy", o.Spec.UpdateStrategy.Type, "", apps.RollingUpdateStatefulSetStrategyType, apps.OnDeleteStatefulSetStrategyType)
			if o.Spec.Ordinals != nil && o.Spec.Ordinals.Start < 0 {
				k.add("ordinals start at %d", o.Spec.Ordinals.Start)
			}
			k.pods(o, o.Spec.Replicas, o.Spec.Selector, &o.Spec.Template, o.Spec.VolumeClaimTemplates)
		case *policy.PodDisruptionBudget, *network.NetworkPolicy: // checked below
		default:
			k.add("the schema does not know this kind")
		}
	}
	k.references(objects)
	return k.problems
}

func (k *kubeSchema) add(format string, args ...any) {
	k.problems = append(k.problems, k.where+": "+fmt.Sprintf(format, args...))
}

// must adds the problems that a validation of Kubernetes reports for a value.
func (k *kubeSchema) must(what, value string, problems []string) {
	for _, p := range problems {
		k.add("%s %q: %s", what, value, p)
	}
}

// enum adds a problem unless the value is one of the permitted ones.
func (k *kubeSchema) enum(what string, value any, permitted ...any) {
	for _, p := range permitted {
		if fmt.Sprint(p) == fmt.Sprint(value) {
			return
		}
	}
	k.add("%s %q: want one of %q", what, value, permitted)
}

func (k *kubeSchema) meta(m meta.Object) {
	if _, ok := m.(*core.Service); ok {
		k.must("name", m.GetName(), validation.IsDNS1035Label(m.GetName()))
	} else {
		k.must("name", m.GetName(), validation.IsDNS1123Subdomain(m.GetName()))
	}
	if m.GetNamespace() != "" {
		k.must("namespace", m.GetNamespace(), validation.IsDNS1123Label(m.GetNamespace()))
	}
	k.labels("labels", m.GetLabels())
	for key := range m.GetAnnotations() {
		k.must("annotation", key, validation.IsQualifiedName(strings.ToLower(key)))
	}
}

func (k *kubeSchema) labels(what string, all map[string]string) {
	for _, err := range metavalidation.ValidateLabels(all, field.NewPath(what)) {
		k.add("%v", err)
	}
}

// secretKeys are the keys that secrets of a type must have.
var secretKeys = map[core.SecretType][]string{
	"": nil, core.SecretTypeOpaque: nil, core.SecretTypeTLS: {core.TLSCertKey, core.TLSPrivateKeyKey},
	core.SecretTypeBasicAuth: {core.BasicAuthUsernameKey}, core.SecretTypeDockerConfigJson: {core.DockerConfigJsonKey},
}

func (k *kubeSchema) secret(s *core.Secret) {
	keys, ok := secretKeys[s.Type]
	if !ok {
		k.add("type %q: want one of the known types", s.Type)
	}
	for _, key := range keys {
		if s.StringData[key] == "" && len(s.Data[key]) == 0 {
			k.add("a secret of type %s has no key %s", s.Type, key)
		}
	}
	for key := range s.StringData {
		k.must("key", key, validation.IsConfigMapKey(key))
	}
}

// pods checks the pods of a workload.
func (k *kubeSchema) pods(of meta.Object, replicas *int32, s *meta.LabelSelector, t *core.PodTemplateSpec, claims []core.PersistentVolumeClaim) {
	k.workloads = append(k.workloads, &kubePods{of.GetName(), of.GetNamespace(), t, claims})
	if replicas != nil && *replicas < 0 {
		k.add("%d replicas", *replicas)
	}
	k.labels("template.labels", t.Labels)
	if selector := k.selector(s); selector != nil && (selector.Empty() || !selector.Matches(labels.Set(t.Labels))) {
		k.add("the selector %s does not match the pods' labels %v", selector, t.Labels)
	}
	pod := &t.Spec
	k.enum("restartPolicy", pod.RestartPolicy, "", core.RestartPolicyAlways)
	k.enum("dnsPolicy", pod.DNSPolicy, "", core.DNSClusterFirst, core.DNSDefault, core.DNSNone, core.DNSClusterFirstWithHostNet)
	if n := pod.TerminationGracePeriodSeconds; n != nil && *n < 0 {
		k.add("terminationGracePeriodSeconds is %d", *n)
	}
	if len(pod.Containers) == 0 {
		k.add("the pods have no container")
	}
	ports, names := make(map[string]bool), make(map[string]bool)
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		k.must("container", c.Name, validation.IsDNS1123Label(c.Name))
		if names[c.Name] {
			k.add("there are two containers %s", c.Name)
		}
		names[c.Name] = true
		k.container(&c, ports)
	}
	k.volumes(pod, claims)
}

func (k *kubeSchema) selector(s *meta.LabelSelector) labels.Selector {
	if s == nil {
		k.add("there is no selector")
		return nil
	}
	selector, err := meta.LabelSelectorAsSelector(s)
	if err != nil {
		k.add("selector: %v", err)
	}
	return selector
}

// kubeVariable is a reference to a variable; $$ escapes one.
var kubeVariable = regexp.MustCompile(`\$\$|\$\(([^)]*)\)`)

// kubeFields are the fields of a pod that variables may have.
var kubeFields = regexp.MustCompile(`^(metadata\.(name|namespace|uid|(labels|annotations)\['[^']+'\])|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$`)

func (k *kubeSchema) container(c *core.Container, names map[string]bool) {
	if c.Image == "" || strings.ContainsAny(c.Image, " \t") {
		k.add("image %q", c.Image)
	}
	k.enum("imagePullPolicy", c.ImagePullPolicy, "", core.PullAlways, core.PullNever, core.PullIfNotPresent)
	for _, p := range c.Ports {
		k.must("port", p.Name, validation.IsValidPortName(p.Name))
		k.must("containerPort", fmt.Sprint(p.ContainerPort), validation.IsValidPortNum(int(p.ContainerPort)))
		k.protocol(p.Protocol)
		if names[p.Name] {
			k.add("two ports have the name %s", p.Name)
		}
		names[p.Name] = true
	}
	for _, p := range []*core.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		if p != nil {
			k.probe(c, p)
		}
	}
	k.resources(c.Resources.Requests, c.Resources.Limits)
	known := make(map[string]bool) // variables so far
	refer := func(text string) {
		for _, m := range kubeVariable.FindAllStringSubmatch(text, -1) {
			if m[0] != "$$" && !known[m[1]] {
				k.add("%q refers to no variable that is declared before", text)
			}
		}
	}
	for _, e := range c.Env {
		k.must("variable", e.Name, validation.IsEnvVarName(e.Name))
		refer(e.Value)
		known[e.Name] = true
		if from := e.ValueFrom; from != nil {
			if e.Value != "" {
				k.add("variable %s has a value and a source", e.Name)
			}
			if from.FieldRef != nil && !kubeFields.MatchString(from.FieldRef.FieldPath) {
				k.add("variable %s: pods have no field %q", e.Name, from.FieldRef.FieldPath)
			}
		}
	}
	for _, a := range slices.Concat(c.Command, c.Args) {
		refer(a)
	}
	if s := c.SecurityContext; s != nil && s.Capabilities != nil {
		for _, name := range slices.Concat(s.Capabilities.Add, s.Capabilities.Drop) {
			if !regexp.MustCompile(`^(ALL|[A-Z_]+)$`).MatchString(string(name)) || strings.HasPrefix(string(name), "CAP_") {
				k.add("capability %q", name)
			}
		}
	}
}

func (k *kubeSchema) protocol(p core.Protocol) {
	k.enum("protocol", p, "", core.ProtocolTCP, core.ProtocolUDP, core.ProtocolSCTP)
}

func (k *kubeSchema) probe(c *core.Container, p *core.Probe) {
	handlers := 0
	if h := p.HTTPGet; h != nil {
		handlers++
		k.enum("scheme", h.Scheme, "", core.URISchemeHTTP, core.URISchemeHTTPS)
		if !path.IsAbs(h.Path) {
			k.add("probe of path %q", h.Path)
		}
		k.port("probe", h.Port, c.Ports)
	}
	if h := p.TCPSocket; h != nil {
		handlers++
		k.port("probe", h.Port, c.Ports)
	}
	if h := p.Exec; h != nil {
		if handlers++; len(h.Command) == 0 {
			k.add("probe without a command")
		}
	}
	if h := p.GRPC; h != nil {
		handlers++
		k.must("probe's port", fmt.Sprint(h.Port), validation.IsValidPortNum(int(h.Port)))
	}
	if handlers != 1 {
		k.add("a probe has %d handlers, want one", handlers)
	}
	if min(p.PeriodSeconds, p.TimeoutSeconds, p.InitialDelaySeconds, p.FailureThreshold, p.SuccessThreshold) < 0 {
		k.add("a number of a probe is negative")
	}
}

// port checks a port that is a number, or the name of one of the given ports.
func (k *kubeSchema) port(what string, p intstr.IntOrString, of []core.ContainerPort) {
	if p.Type == intstr.Int {
		k.must(what+"'s port", p.String(), validation.IsValidPortNum(p.IntValue()))
	} else if !slices.ContainsFunc(of, func(o core.ContainerPort) bool { return o.Name == p.StrVal }) {
		k.add("%s: no container has a port %q", what, p.StrVal)
	}
}

// kubeResourceNames are the resources of containers and of claims.
var kubeResourceNames = []any{core.ResourceCPU, core.ResourceMemory, core.ResourceEphemeralStorage, core.ResourceStorage}

func (k *kubeSchema) resources(requests, limits core.ResourceList) {
	for _, list := range []core.ResourceList{requests, limits} {
		for name, n := range list {
			k.enum("resource", name, kubeResourceNames...)
			if n.Sign() <= 0 {
				k.add("%s is %s", name, n.String())
			}
		}
	}
	for name, most := range limits {
		if n, ok := requests[name]; ok && n.Cmp(most) > 0 {
			k.add("%s: %s are requested, the limit is %s", name, n.String(), most.String())
		}
	}
}

// volumes checks that mounts and volumes belong together.
func (k *kubeSchema) volumes(pod *core.PodSpec, claims []core.PersistentVolumeClaim) {
	used := make(map[string]bool) // by volume
	volume := func(name string) {
		k.must("volume", name, validation.IsDNS1123Label(name))
		if _, twice := used[name]; twice {
			k.add("there are two volumes %s", name)
		}
		used[name] = false
	}
	for _, v := range pod.Volumes {
		volume(v.Name)
		if v.VolumeSource == (core.VolumeSource{}) {
			k.add("volume %s has no source", v.Name)
		}
	}
	for _, c := range claims {
		volume(c.Name)
		if len(c.Spec.AccessModes) == 0 || c.Spec.Resources.Requests.Storage().IsZero() {
			k.add("claim %s: want an access mode and a size", c.Name)
		}
		for _, m := range c.Spec.AccessModes {
			k.enum("accessMode", m, core.ReadWriteOnce, core.ReadOnlyMany, core.ReadWriteMany, core.ReadWriteOncePod)
		}
		k.resources(c.Spec.Resources.Requests, c.Spec.Resources.Limits)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		paths := make(map[string]bool)
		for _, m := range c.VolumeMounts {
			if _, ok := used[m.Name]; !ok {
				k.add("container %s mounts %q, which is no volume", c.Name, m.Name)
			}
			used[m.Name] = true
			if !path.IsAbs(m.MountPath) || strings.Contains(m.MountPath, ":") || paths[m.MountPath] {
				k.add("container %s mounts at %q, which is not absolute, or twice", c.Name, m.MountPath)
			}
			paths[m.MountPath] = true
		}
	}
	for name, mounted := range used {
		if !mounted {
			k.add("no container mounts volume %s", name)
		}
	}
}

// references checks what objects refer to others by: selectors, names of services, secrets and their keys.
func (k *kubeSchema) references(objects []runtime.Object) {
	for _, s := range k.services {
		k.where = "v1.Service " + s.Name
		k.service(s)
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *apps.StatefulSet:
			k.where = "v1.StatefulSet " + o.Name
			i := slices.IndexFunc(k.services, func(s *core.Service) bool {
				return s.Name == o.Spec.ServiceName && s.Namespace == o.Namespace
			})
			if i < 0 || k.services[i].Spec.ClusterIP != core.ClusterIPNone || len(k.selected(k.services[i])) == 0 {
				k.add("%q is no headless service of its pods", o.Spec.ServiceName)
			}
		case *network.NetworkPolicy:
			k.where = "v1.NetworkPolicy " + o.Name
			k.policy(o)
		case *policy.PodDisruptionBudget:
			k.where = "v1.PodDisruptionBudget " + o.Name
			if selector := k.selector(o.Spec.Selector); selector != nil && len(k.matching(o.Namespace, selector)) != 1 {
				k.add("the selector %s selects %d workloads, want one", selector, len(k.matching(o.Namespace, selector)))
			}
			if (o.Spec.MaxUnavailable == nil) == (o.Spec.MinAvailable == nil) {
				k.add("want either maxUnavailable or minAvailable")
			}
		}
	}
	for _, w := range k.workloads {
		k.where = "pods of " + w.name
		for _, v := range w.template.Spec.Volumes {
			if v.Secret != nil {
				k.secretKeys(w.namespace, v.Secret.SecretName, v.Secret.Optional)
			}
		}
		for _, c := range slices.Concat(w.template.Spec.InitContainers, w.template.Spec.Containers) {
			for _, from := range c.EnvFrom {
				if r := from.SecretRef; r != nil {
					k.secretKeys(w.namespace, r.Name, r.Optional)
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					r := e.ValueFrom.SecretKeyRef
					optional := r.Optional != nil && *r.Optional
					if keys := k.secretKeys(w.namespace, r.Name, r.Optional); !slices.Contains(keys, r.Key) && !(optional && keys == nil) {
						k.add("secret %s has no key %s", r.Name, r.Key)
					}
				}
			}
		}
	}
}

// secretKeys returns the keys of a secret, which must exist unless it is optional.
func (k *kubeSchema) secretKeys(namespace, name string, optional *bool) (keys []string) {
	for _, s := range k.secrets {
		if s.Name == name && s.Namespace == namespace {
			for key := range s.StringData {
				keys = append(keys, key)
			}
			return keys
		}
	}
	if optional == nil || !*optional {
		k.add("there is no secret %q", name)
	}
	return nil
}

func (k *kubeSchema) matching(namespace string, s labels.Selector) (found []*kubePods) {
	for _, w := range k.workloads {
		if w.namespace == namespace && !s.Empty() && s.Matches(labels.Set(w.template.Labels)) {
			found = append(found, w)
		}
	}
	return found
}

func (k *kubeSchema) selected(s *core.Service) []*kubePods {
	return k.matching(s.Namespace, labels.SelectorFromSet(s.Spec.Selector))
}

func (k *kubeSchema) service(s *core.Service) {
	k.enum("type", s.Spec.Type, "", core.ServiceTypeClusterIP, core.ServiceTypeNodePort, core.ServiceTypeLoadBalancer, core.ServiceTypeExternalName)
	k.enum("sessionAffinity", s.Spec.SessionAffinity, "", core.ServiceAffinityNone, core.ServiceAffinityClientIP)
	if ip := s.Spec.ClusterIP; ip != "" && ip != core.ClusterIPNone {
		for _, err := range validation.IsValidIP(field.NewPath("clusterIP"), ip) {
			k.add("%v", err)
		}
	}
	k.labels("selector", s.Spec.Selector)
	pods := k.selected(s)
	if len(pods) != 1 {
		k.add("it selects the pods of %d workloads, want one", len(pods))
	}
	if len(s.Spec.Ports) == 0 {
		k.add("it has no ports")
	}
	names, numbers := make(map[string]bool), make(map[string]bool)
	for _, p := range s.Spec.Ports {
		k.protocol(p.Protocol)
		k.must("port", fmt.Sprint(p.Port), validation.IsValidPortNum(int(p.Port)))
		number := fmt.Sprint(p.Port, p.Protocol)
		if names[p.Name] || numbers[number] || p.Name == "" && len(s.Spec.Ports) > 1 {
			k.add("port %q %d: want a name and a number of its own", p.Name, p.Port)
		}
		names[p.Name], numbers[number] = true, true
		if p.Name != "" {
			k.must("port", p.Name, validation.IsDNS1123Label(p.Name))
		}
		for _, w := range pods {
			var of []core.ContainerPort
			for _, c := range w.template.Spec.Containers {
				of = append(of, c.Ports...)
			}
			if p.TargetPort != (intstr.IntOrString{}) {
				k.port("port "+p.Name, p.TargetPort, of)
			}
		}
	}
}

// TestKubernetesSchema checks the manifests of deploy, applied together, and expects the problem of each wrong value and each reference to nothing.
func TestKubernetesSchema(t *testing.T) {
	texts := kubeTexts(t)
	var all []byte
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		all = append(all, "\n---\n"...)
		all = append(all, texts[file]...)
	}
	problems := func(text []byte) []string {
		t.Helper()
		objects, err := kubeObjects(text)
		if err != nil {
			return []string{"decode: " + err.Error()}
		}
		return kubeProblems(objects)
	}
	for _, p := range problems(all) {
		t.Error(p)
	}
	for _, wrong := range []struct{ right, wrong, want string }{
		{"replicas: 3", "replicas: three", "decode"},
		{"replicas: 3", "replicas: -1", "-1 replicas"},
		{"clusterIP: None", "clusterIp: None", "unknown field"},
		{"clusterIP: None", "clusterIP: none", "clusterIP"},
		{"clusterIP: None", "type: ClusterIp", `type "ClusterIp"`},
		{"clusterIP: None", "sessionAffinity: Client", "sessionAffinity"},
		{"kind: StatefulSet", "kind: StatefulSets", "decode"},
		{"containers:", "container:", "unknown field"},
		{"serviceName: tare-store", "serviceName: tare-stores", "no headless service"},
		{"podManagementPolicy: Parallel", "podManagementPolicy: parallel", "podManagementPolicy"},
		{"ordinals: {start: 1}", "ordinals: {start: -1}", "ordinals"},
		{"    matchLabels: {app: tare-store}\n  template", "    matchLabels: {app: tare}\n  template", "does not match the pods' labels"},
		{"  selector: {app: tare-store}", "  selector: {app: tare}", "selects the pods of 0 workloads"},
		{"  maxUnavailable: 1\n  selector:\n    matchLabels: {app: tare-store}", "  maxUnavailable: 1\n  selector:\n    matchLabels: {app: tare}", "selects 0 workloads"},
		{"  maxUnavailable: 1\n", "", "maxUnavailable or minAvailable"},
		{"port: 10901, targetPort: grpc", "port: 10901, targetPort: rpc", `no container has a port "rpc"`},
		{"port: 10901, targetPort: grpc", "port: 109010, targetPort: grpc", "109010"},
		{"port: 10901, targetPort: grpc", "port: 8317, protocol: '', targetPort: grpc", "a number of its own"},
		{"port: 10901, targetPort: grpc", "port: 10901, protocol: tcp, targetPort: grpc", `protocol "tcp"`},
		{"{name: grpc, containerPort: 10901}", "{name: http, containerPort: 10901}", "two ports have the name http"},
		{"{name: grpc, containerPort: 10901}", "{name: gRPC, containerPort: 10901}", `port "gRPC"`},
		{"{path: /-/ready, port: http}\n            periodSeconds: 5\n          livenessProbe:\n            httpGet: {path: /-/healthy, port: http}\n            periodSeconds: 10\n            failure", "{path: ready, port: web}\n            periodSeconds: 5\n          livenessProbe:\n            httpGet: {path: /-/healthy, port: http}\n            periodSeconds: 10\n            failure", `no container has a port "web"`},
		{"requests: {storage: 10Gi}", "requests: {storage: 10GiB}", "decode"},
		{"requests: {storage: 10Gi}", "requests: {stowage: 10Gi}", "claim data"},
		{"accessModes: [ReadWriteOnce]", "accessModes: [ReadWrite]", "accessMode"},
		{"limits: {memory: 2Gi}", "limits: {memory: 1Gi}", "2Gi are requested"},
		{"limits: {memory: 2Gi}", "limits: {memroy: 2Gi}", `resource "memroy"`},
		{"metadata: {name: data}", "metadata: {name: date}", `mounts "data"`},
		{"{name: accounts, mountPath: /etc/tare/accounts, readOnly: true}", "{name: tls, mountPath: /etc/tare/accounts, readOnly: true}", "no container mounts volume accounts"},
		{"mountPath: /etc/tare/accounts", "mountPath: etc/tare/accounts", "not absolute"},
		{"mountPath: /etc/tare/accounts", "mountPath: /etc/tare/tls", "or twice"},
		{"secret: {secretName: tare-store-accounts}", "secret: {secretName: tare-other}", `no secret "tare-other"`},
		{"secretRef: {name: tare-store-bucket}", "secretRef: {name: tare-bucket}", `no secret "tare-bucket"`},
		{"fieldPath: \"metadata.labels['apps", "fieldPath: \"metadata.label['apps", "pods have no field"},
		{"value: $(POD_INDEX)/3", "value: $(INDEX)/3", "no variable"},
		{"type: kubernetes.io/tls", "type: kubernetes.io/TLS", "want one of the known types"},
		{"  tls.key: replace-this\n", "", "no key tls.key"},
		{"capabilities: {drop: [ALL]}", "capabilities: {drop: [all]}", `capability "all"`},
		{"name: tare-store-accounts\n", "name: tare_store_accounts\n", `name "tare_store_accounts"`},
		{"labels: {app: tare-store}\nspec:", "labels: {app: tare store}\nspec:", "labels"},
		{"        - podSelector:\n            matchLabels: {app: thanos-query}", "        - podSelector:\n            matchLabels: {app: thanos}", "no workload has"},
		{"    - from:\n        - podSelector:\n            matchLabels: {app: thanos-query}\n      ports", "    - ports", "from everywhere"},
		{"        - {port: grpc}\n", "        - {port: rpc}\n", `no container has a port "rpc"`},
		{"policyTypes: [Ingress, Egress]", "policyTypes: [Ingress, Outgress]", "policyType"},
		{"  podSelector:\n    matchLabels: {app: tare-store}", "  podSelector:\n    matchLabels: {app: tare}", "selects the pods of 0 workloads"},
		{"image: registry.example/tare:0.1.0", "image: ''", "image"},
		{"image: registry.example/tare:0.1.0", "image: a:1\n          imagePullPolicy: always", "imagePullPolicy"},
	} {
		// The mistakes are in store.yaml and secrets.yaml.
		at := strings.Index(string(all), "# Three instances of tare store")
		changed := string(all[:at]) + strings.Replace(string(all[at:]), wrong.right, wrong.wrong, 1)
		if changed == string(all) {
			changed = strings.Replace(string(all), wrong.right, wrong.wrong, 1)
		}
		if changed == string(all) {
			t.Errorf("the manifests have no %q", wrong.right)
			continue
		}
		if got := problems([]byte(changed)); !slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, wrong.want) }) {
			t.Errorf("%q: problems %q, want one with %q", wrong.wrong, got, wrong.want)
		}
	}
}
