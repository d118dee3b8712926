package config

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/throttle"
)

// CopyThrottle are the options that control when a copy slows down.
type CopyThrottle struct {
	Limits       throttle.Options `json:"-"` // without the servers and the gateway to poll
	Replicas     []ControlURL
	Server       ControlURL // polled for Threads_running and Query; the source if not set
	Gateway      GatewayURL
	GatewayToken Token
	GatewayCA    string // file; "": the system's authorities
}

func (t *CopyThrottle) declare(s *Set) {
	s.in("Throttling")
	s.Duration(&t.Limits.MaxLag, "max-lag", "0", "throttle to keep the lag of --replica below this; 0: no limit")
	declare(s, &t.Replicas, Option{
		Name: "replica", Kind: "url", repeats: true,
		Help: "account on a replica of either side; can be repeated",
	}, parseControlURLs, formatControlURLs)
	s.Int(&t.Limits.MaxThreadsRunning, "max-threads-running", "0", 0, "throttle to keep the source's Threads_running at or below this; 0: no limit")
	s.String(&t.Limits.Query, "throttle-query", "SQL", "", "throttle to keep the number returned by this SELECT at or below --throttle-above")
	declare(s, &t.Limits.Above, Option{Name: "throttle-above", Kind: "number", Default: "0", Help: "see --throttle-query"}, parseNumber, formatNumber)
	s.Control(&t.Server, "throttle-server", "account on the server polled for Threads_running and --throttle-query; --from when empty")
	s.Duration(&t.Limits.MaxP99, "max-p99", "0", "throttle to keep the p99 of live statements, by --gateway, below this; 0: no limit")
	declare(s, &t.Gateway, Option{Name: "gateway", Kind: "url", Help: "HTTP address of the tare serve with the live traffic: http://host:8316"}, parseGatewayURL, GatewayURL.String)
	t.GatewayToken.declare(s, "gateway-", "token of an account of --gateway: role viewer for --max-p99, operator for --cutover")
	s.String(&t.GatewayCA, "gateway-ca", "file", "", "CA certificates (PEM) of --gateway; the system's when empty")
	s.Duration(&t.Limits.Patience, "throttle-patience", "5m", "how long the copy pauses without a limit's metric, before it fails")
}

// need declares which options have no effect without others.
func (t *CopyThrottle) need(s *Set) {
	s.need("without --max-lag", func() bool { return t.Limits.MaxLag > 0 }, "replica")
	s.need("without --gateway", func() bool { return t.Gateway.set() }, "gateway-token", "gateway-token-file", "gateway-ca")
	s.need("without --gateway https://…", func() bool { return t.Gateway.https() }, "gateway-ca")
	s.need("without a limit of a throttle, such as --max-threads-running",
		func() bool {
			return t.Limits.MaxLag > 0 || t.Limits.MaxThreadsRunning > 0 || t.Limits.Query != "" || t.Limits.MaxP99 > 0
		}, "throttle-patience")
}

// validate reports limits without a metric.
func (t *CopyThrottle) validate(from CopySource) []error {
	errs := t.GatewayToken.validate("gateway-")
	pair := func(have, need bool, text string) {
		if have && !need {
			errs = append(errs, errors.New(text))
		}
	}
	pair(t.Limits.MaxLag > 0, len(t.Replicas) > 0, "--max-lag needs to know of whom: --replica mysql://user:password@host:port")
	pair(t.Limits.MaxP99 > 0, t.Gateway.set(), "--max-p99 needs to know who measures it: --gateway http://host:8316")
	gateway := gatewayclient.Gateway{URL: t.Gateway.Reveal()}
	if t.GatewayToken.given() {
		gateway.Token = mask // its file is read later
	}
	errs = append(errs, gateway.Validate())
	asked := t.Limits.MaxThreadsRunning > 0 || t.Limits.Query != ""
	pair(asked && (from.Tare != "" || from.IsDump()), t.Server.Addr != "", "--max-threads-running and --throttle-query without --from mysql://… need to know which server to ask: --throttle-server mysql://user:password@host:port")
	return errs
}

func parseControlURLs(text string) ([]ControlURL, error) {
	var all []ControlURL
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		u, err := parseControlURL(line)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

func formatControlURLs(all []ControlURL) string {
	var lines []string
	for _, u := range all {
		lines = append(lines, u.String())
	}
	return strings.Join(lines, "\n")
}

// maxNumber keeps parsed numbers far from overflow.
const maxNumber = 1e300

func parseNumber(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= maxNumber) {
		return 0, fmt.Errorf("want a number of at least 0, not %q", text)
	}
	return v, nil
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// A GatewayURL is the URL of a tare serve's pages. It may contain a password, which is masked in output.
type GatewayURL struct{ url Secret }

func (g GatewayURL) set() bool { return g.url.Reveal() != "" }

func (g GatewayURL) https() bool { return strings.HasPrefix(g.url.Reveal(), "https:") }

// Reveal returns the URL with its password.
func (g GatewayURL) Reveal() string { return g.url.Reveal() }

// String returns the URL with the password masked.
func (g GatewayURL) String() string {
	if !g.set() {
		return ""
	}
	u, err := url.Parse(g.url.Reveal())
	if err != nil {
		panic("BUG: a gateway's URL that was parsed before is none")
	}
	return u.Redacted()
}

func parseGatewayURL(text string) (GatewayURL, error) {
	if text == "" {
		return GatewayURL{}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return GatewayURL{}, errors.New("want http://host:port or https://host:port, with user:password@ if the gateway requires an account") // never repeats the value
	}
	return GatewayURL{NewSecret(text)}, nil
}
