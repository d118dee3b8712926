// Package doccommands extracts the shell commands of documentation, so that tests can check and run
// each of them as printed.
//
// # Data flow
//
//	page ─> blocks of code ─lines─> Commands ─Calls─> programs with their arguments
//	                          └─> data: output, PromQL, drawings
//
// # Limits
//
// The package runs nothing. A line that is neither a command of a known program nor recognized data is an
// error: an untested command must not pass as output.
package doccommands
