package config

import (
	"errors"
	"strings"
)

// noTextUsers declares the accounts that see no statement texts.
func (s *Set) noTextUsers(p *[]string) {
	declare(s, p, Option{
		Name: "web-no-text-users", Kind: "name,…",
		Help: "accounts of --web-config-file that see digests but no statement texts: no live log, no samples, no text labels",
	}, parseNames, func(names []string) string { return strings.Join(names, ",") })
}

// validateNoTextUsers reports names without accounts.
func validateNoTextUsers(names []string, file string) error {
	if len(names) > 0 && file == "" {
		return errors.New("--web-no-text-users has no effect without accounts: name a file with basic_auth_users in --web-config-file")
	}
	return nil
}
