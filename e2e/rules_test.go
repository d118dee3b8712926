//go:build e2e

package e2e

import "testing"

// TestRules has Prometheus' tool check the rules of deploy, and run their tests.
func TestRules(t *testing.T) {
	mustRun(t, "", "promtool", "check", "rules", "../deploy/prometheus/rules.yaml")
	mustRun(t, "", "promtool", "test", "rules", "../deploy/prometheus/rules_test.yaml")
}
