// Package doccommands extracts the shell commands of documentation, so that tests can check and run
// each of them as printed.
//
// # Data flow
//
//	page ─> blocks of code ─lines─> Commands ─Calls─> programs with their arguments
//	                          └─> data: output, PromQL, drawings
//
// # What it does not do
//
// It runs nothing. A line that is neither a command of a known program nor recognised data is an
// error: a command that no test knows must not look like output.
package doccommands
