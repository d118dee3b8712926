package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Server are the options common to all servers. Each declares them among its options.
type Server struct {
	HTTPAccess
	DataDir      string // "": the default, see cmd/tare/internal/server
	DrainTimeout time.Duration
	Log          QueryLog
	Diag         Diag
}

// HTTPAccess are the options of an HTTP server: its address and its permitted clients.
type HTTPAccess struct {
	HTTP          Address // "": off
	WebConfigFile string
	AccountsFile  string
	AllowedHosts  []string // host names of HTTP besides localhost and addresses
	HTTPConns     int      // limit of connections, and of requests in flight
}

func (h *HTTPAccess) declare(s *Set) {
	s.in("Access to pages and API")
	s.String(&h.WebConfigFile, "web-config-file", "file", "", "TLS and accounts (operators with texts) of --http, as of Prometheus' exporters; it or --web-accounts-file is required unless --http is loopback")
	s.String(&h.AccountsFile, "web-accounts-file", "file", "", "accounts of --http: YAML with role (metrics, viewer or operator), texts, and password or token_sha256; re-read when it changes")
	s.allowedHosts(&h.AllowedHosts)
	s.Int(&h.HTTPConns, "http-max-connections", strconv.Itoa(DefaultHTTPConns), 2, "connections of --http, and requests in flight; half for one client address; at most an eighth of the limit on open files")
}

// need declares which options have no effect where --http may be off.
func (h *HTTPAccess) need(s *Set) {
	s.need("with --http off", h.on, "web-config-file", "web-accounts-file", "http-allowed-hosts", "http-max-connections")
}

func (h *HTTPAccess) on() bool { return h.HTTP != "" }

// DefaultHTTPConns is the default of --http-max-connections.
const DefaultHTTPConns = 512

// validate reports options without effect, and a server that is open to other machines.
func (h *HTTPAccess) validate() (errs []error) {
	if h.HTTP == "" {
		return nil
	}
	if !h.HTTP.Loopback() && h.WebConfigFile == "" && h.AccountsFile == "" {
		errs = append(errs, fmt.Errorf("--http %s is open to other machines: it needs --web-accounts-file with accounts or --web-config-file with TLS or accounts", h.HTTP))
	}
	return errs
}

// allowedHosts declares the host names of the pages.
func (s *Set) allowedHosts(p *[]string) {
	declare(s, p, Option{
		Name: "http-allowed-hosts", Kind: "name[:port],…",
		Help: "names of --http besides localhost, IP addresses and its own host, with the port unless it is 80 or 443; others in Host or Origin are refused",
	}, parseHosts, func(names []string) string { return strings.Join(names, ",") })
}

// parseHosts parses host names without scheme, possibly with a port, separated by commas.
func parseHosts(s string) ([]string, error) {
	names, err := parseNames(s)
	if err != nil {
		return nil, err
	}
	for _, given := range names {
		name, port, found := strings.Cut(given, ":")
		if _, err := strconv.ParseUint(port, 10, 16); found && err != nil || name == "" || strings.ContainsAny(name, "/@*[] \t") {
			return nil, fmt.Errorf("want host names separated by commas, without scheme, such as tare.example.com or tare.example.com:8443, not %q", given)
		}
	}
	return names, nil
}

// Hosts returns the host names of the server: the address's host and the allowed ones.
func (h *HTTPAccess) Hosts() []string {
	host, _, err := net.SplitHostPort(string(h.HTTP))
	if err != nil || host == "" {
		return h.AllowedHosts
	}
	return append([]string{host}, h.AllowedHosts...)
}
