// Package config holds the options of Tare's subcommands: each declared once, which gives
// the flag, the environment variable, the YAML key, the default and the documentation.
//
// # Terms
//
//   - A section is the set of options of one subcommand and the top-level YAML key that
//     holds them (serve).
//   - An option has one name in kebab-case: --max-connections, TARE_MAX_CONNECTIONS, and
//     max-connections under its section.
//   - An origin says where a value came from: default, file, env or flag, with the place.
//
// # Data flow
//
//	declaration ──default──┐
//	YAML file ──walked─────┤
//	TARE_… variables ──────┼──last one wins──> typed struct (Serve) ──Validate──> wiring
//	flags ─────────────────┘                        └──> print, with origins, secrets masked
//
// # Strictness
//
// A key that no section knows is refused with file and line, as is a key given twice, a
// second document, or a value of the wrong shape. Everything that is wrong is reported at
// once. A TARE_ variable that names no option is a warning, not an error: the environment
// is shared, and Kubernetes itself sets TARE_SERVICE_HOST for a service named tare. A
// variable that is set and empty counts as not set.
//
// # Secrets
//
// A Secret formats as a mask under every verb; errors about values that may hold one do
// not repeat the value.
//
// # What it does not do
//
// It opens nothing but the configuration file: certificates and log files are read by
// whoever uses them. It compiles no rules.
package config
