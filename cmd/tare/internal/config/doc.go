// Package config declares the options of Tare's subcommands, each once: the declaration gives the flag, the
// environment variable, the YAML key, the default and the documentation.
//
// # Terms
//
//   - A section is the set of options of one subcommand, and its top-level YAML key (serve).
//   - An option has one name in kebab-case: --max-connections, TARE_MAX_CONNECTIONS, and
//     max-connections under its section.
//   - An origin is the source of a value: default, file, env or flag, with the position.
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
// A key that no section has is refused with file and line, as is a duplicate key, a second document, or a
// value of the wrong type. All errors are reported together. A TARE_ variable that names no option is a
// warning, not an error: the environment is shared, and Kubernetes sets TARE_SERVICE_HOST for a service named
// tare. An empty variable counts as not set.
//
// # Secrets
//
// A Secret formats as a mask under every verb; errors about values that may contain one do not repeat the
// value.
//
// # Limits
//
// The package opens only the configuration file: the users of certificates and log files open them. It does
// not compile rules.
package config
