package manifests

import (
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
)

// policy checks a policy: its pods, the ports of incoming connections, and selectors of pods in its namespace.
func (k *kubeSchema) policy(p *network.NetworkPolicy) {
	selector := k.selector(&p.Spec.PodSelector)
	if selector == nil {
		return
	}
	pods := k.matching(p.Namespace, selector)
	if len(pods) != 1 {
		k.add("it selects the pods of %d workloads, want one", len(pods))
		return
	}
	for _, t := range p.Spec.PolicyTypes {
		k.enum("policyType", t, network.PolicyTypeIngress, network.PolicyTypeEgress)
	}
	if len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress) == 0 || len(p.Spec.Egress) == 0 {
		k.add("want both policy types, with rules")
	}
	var ports []core.ContainerPort
	for _, c := range pods[0].template.Spec.Containers {
		ports = append(ports, c.Ports...)
	}
	check := func(all []network.NetworkPolicyPort, peers []network.NetworkPolicyPeer, of []core.ContainerPort) {
		for _, port := range all {
			if port.Protocol != nil {
				k.protocol(*port.Protocol)
			}
			if port.Port == nil {
				k.add("a rule has a port without a number")
				continue
			}
			k.port("rule", *port.Port, of)
		}
		for _, peer := range peers {
			if peer.PodSelector == nil && peer.NamespaceSelector == nil && peer.IPBlock == nil {
				k.add("a peer is empty")
			}
			if s := peer.PodSelector; s != nil && peer.NamespaceSelector == nil {
				if selector := k.selector(s); selector != nil && len(k.matching(p.Namespace, selector)) == 0 {
					k.add("a rule for the pods %s, which no workload has", selector)
				}
			}
		}
	}
	for _, r := range p.Spec.Ingress {
		if len(r.From) == 0 || len(r.Ports) == 0 {
			k.add("a rule for connections from everywhere, or to every port")
		}
		check(r.Ports, r.From, ports)
	}
	for _, r := range p.Spec.Egress {
		check(r.Ports, r.To, nil)
	}
}
