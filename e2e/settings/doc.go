//go:build e2e

// Package settings tests that no variable that a server's sessions inherit, or that can be set while it runs, changes what
// tare copy, dump and alter do: each is set to each of its other values, as the server lists them, and the commands end
// with equal rows or refuse, naming the variable.
//
//	go test -C e2e -tags e2e ./settings -settings.cases -1 -settings.state FILE
//
// The list of variables and values comes from the server. A case is one value on the source, the target or both. Cases
// of different variables are tried in groups, all values at once; a group that is not equal is tried in parts, so that
// each other outcome is that of one case alone. -settings.group 1 tries each alone: an effect that another variable
// of its group conceals would be found that way only. The results are appended to the state file, and cases that it has
// are skipped, so that a run can be resumed; -settings.shard I/N runs a part of the cases.
package settings
