package main

import (
	"os"
	"strings"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// takeArgs returns the process's arguments and masks the secrets in os.Args, which profiles show. On
// Linux it masks them in the process list too.
func takeArgs() []string {
	if len(os.Args) == 0 {
		return nil
	}
	args := make([]string, len(os.Args))
	secret := false
	names := secretFlags()
	for i, arg := range os.Args {
		args[i] = strings.Clone(arg) // the original may be overwritten
		from, to := secretSpan(arg, secret)
		secret = names[arg]
		if from < to {
			os.Args[i] = arg[:from] + strings.Repeat("x", to-from) + arg[to:]
			overwrite(arg, from, to)
		}
	}
	return args[1:]
}

// secretFlags returns the flags whose whole value is a secret, as spelled.
func secretFlags() map[string]bool {
	names := make(map[string]bool)
	for _, s := range config.Sections() {
		for _, o := range s.Options() {
			if o.Kind == config.KindSecret {
				names["--"+o.Name] = true
			}
		}
	}
	return names
}

// secretSpan returns the position of the secret in an argument, from == to if there is none. All passwords of
// a list of URLs are in one span, including passwords with characters that were not percent-encoded.
func secretSpan(arg string, whole bool) (from, to int) {
	if whole {
		return 0, len(arg)
	}
	if name, _, ok := strings.Cut(arg, "="); ok && secretFlags()[name] {
		return len(name) + 1, len(arg)
	}
	start, end := strings.Index(arg, "://"), strings.LastIndexByte(arg, '@')
	switch {
	case strings.Contains(arg, "@tcp("): // a DSN, as for tare bench
		start, end = 0, strings.LastIndex(arg, "@tcp(")
	case start < 0 || end < start:
		return 0, 0
	default:
		start += len("://")
	}
	colon := strings.IndexByte(arg[start:end], ':')
	if colon < 0 {
		return 0, 0
	}
	return start + colon + 1, end
}
