package config

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// noTextUsers declares the accounts that see no statement texts.
func (s *Set) noTextUsers(p *[]string) {
	declare(s, p, Option{
		Name: "web-no-text-users", Kind: "name,…",
		Help: "accounts of --web-config-file that see digests but no statement texts: no live log, no samples, no text labels",
	}, parseNames, func(names []string) string { return strings.Join(names, ",") })
}

// allowedHosts declares the host names under which the pages are reached.
func (s *Set) allowedHosts(p *[]string) {
	declare(s, p, Option{
		Name: "http-allowed-hosts", Kind: "name,…",
		Help: "host names under which --http is reached, besides localhost, IP addresses and the host in --http: requests with other names in Host or Origin are refused, which stops DNS rebinding",
	}, parseHosts, func(names []string) string { return strings.Join(names, ",") })
}

// parseHosts parses host names without scheme and port, separated by commas.
func parseHosts(s string) ([]string, error) {
	names, err := parseNames(s)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.ContainsAny(name, ":/@*[] \t") {
			return nil, fmt.Errorf("want host names separated by commas, without scheme and port, such as tare.example.com, not %q", name)
		}
	}
	return names, nil
}

// Hosts returns the allowed host names: the address's host and more.
func (a Address) Hosts(more []string) []string {
	host, _, err := net.SplitHostPort(string(a))
	if err != nil || host == "" {
		return more
	}
	return append([]string{host}, more...)
}

// validateNoTextUsers reports names without accounts.
func validateNoTextUsers(names []string, file string) error {
	if len(names) > 0 && file == "" {
		return errors.New("--web-no-text-users has no effect without accounts: name a file with basic_auth_users in --web-config-file")
	}
	return nil
}
