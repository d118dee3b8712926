package config

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/fleet/frontend"
)

// Frontend are the options of tare frontend.
type Frontend struct {
	section
	ConfigFile string

	Options      frontend.Options
	DownstreamCA string // file; "": the system's authorities

	TracesURL string // of an OTLP receiver; "": none

	Server

	input Input // passed to Load
}

// NewFrontend returns the options of tare frontend with their defaults.
func NewFrontend() *Frontend {
	c := &Frontend{}
	s := newSet("frontend", &c.ConfigFile)
	declare(s, &c.Options.Downstreams, Option{
		Name: "downstream", Kind: "urls",
		Help: "replicas of one system, such as http://mimir-1:8080/prometheus,http://mimir-2:8080/prometheus: each shard is requested from one",
	}, parseURLs, formatURLs)
	declare(s, &c.Options.Members, Option{
		Name: "member", Kind: "urls",
		Help: "systems with different series: each shard is requested from all",
	}, parseURLs, formatURLs)
	s.Address(&c.HTTP, "http", "127.0.0.1:8318", "address for the API, metrics and health")
	s.String(&c.DataDir, "data-dir", "dir", "", "directory for the query log's sequence file; when empty frontend in $STATE_DIRECTORY, $XDG_STATE_HOME/tare or ~/.local/state/tare")
	s.String(&c.DownstreamCA, "downstream-ca", "file", "", "CA certificates (PEM) of downstreams and members; the system's when empty")
	declareWords(s, &c.Options.Encoding, "downstream-encoding", "compression requested from downstreams and members",
		word[frontend.Encoding]{"none", frontend.Identity}, word[frontend.Encoding]{"snappy", frontend.Snappy},
		word[frontend.Encoding]{"gzip", frontend.Gzip}, word[frontend.Encoding]{"zstd", frontend.Zstd})
	s.in("Requests")
	s.Int(&c.Options.Shards, "shards", "16", 1, "shards of a request without the header Sharding-Control; 1 does not split")
	s.Int(&c.Options.MaxShards, "max-shards", "128", 0, "shards that a request may ask for; 0: no limit")
	s.Int(&c.Options.MaxRequests, "max-requests", "32", 0, "concurrent requests, the others queue; 0: no limit")
	declareBytes(s, &c.Options.ResponseBytes, "response-bytes", "0", 0, "size limit of an uncompressed response; 0: no limit")
	declareBytes(s, &c.Options.MergeBytes, "merge-bytes", "256MiB", 64<<10, "memory limit of one request for deduplication, counting and merging of histograms")
	s.Duration(&c.Options.Timeout, "timeout", "5m", "time limit of a request, including reading the response; 0: no limit")
	declare(s, &c.Options.Hedge, Option{
		Name: "hedge", Kind: "share", Default: "0.05",
		Help: "fraction of shard requests (0 to 1) that may be repeated, for a last shard twice as slow as the others",
	}, parseShare, func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) })
	s.traces(&c.TracesURL)
	s.Duration(&c.DrainTimeout, "drain-timeout", "30s", "time for running requests after SIGTERM")
	declareWords(s, &c.Options.Decoding.By, "decoder", "decoder of responses; stdlib is slower; re-read from --config on SIGHUP",
		word[activeseries.Implementation]{"strict", activeseries.Strict}, word[activeseries.Implementation]{"stdlib", activeseries.Stdlib})
	declare(s, &c.Options.Decoding.Compare, Option{
		Name: "decoder-compare", Kind: "share", Default: "0",
		Help: "fraction of requests (0 to 1) decoded by both; differences are logged; re-read from --config on SIGHUP",
	}, parseShare, func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) })
	c.HTTPAccess.declare(s)
	c.Log.declareRequests(s, requestLog{
		kind: "request", fields: frontend.LogFields(),
		example: "tenant=team-a total_ns>1s retries>0",
		values:  "the values in selectors", rows: "series", digest: "digest", text: "selectors",
	})
	c.Diag.declare(s)
	s.need("without --log-file: no other option keeps files there", func() bool { return c.Log.Sink.Path != "" }, "data-dir")
	s.need("without https://: no URL has it", func() bool {
		return len(c.Options.Downstreams)+len(c.Options.Members) == 0 || anyTLS(c.Options.Downstreams) || anyTLS(c.Options.Members)
	}, "downstream-ca")
	c.Log.need(s, nil)
	c.set = s
	return c
}

// parseURLs parses URLs separated by commas, which must differ, in their shortest spelling. Its errors contain no password.
func parseURLs(s string) ([]*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	var urls []*url.URL
	places := make(map[string]int) // by host and path
	for i, text := range strings.Split(s, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("URL %d: want one such as http://host:8080 or https://user:password@host/prometheus", i+1)
		}
		port := ":80"
		if u.Scheme == "https" {
			port = ":443"
		}
		u.Host = strings.TrimSuffix(strings.ToLower(u.Host), port)
		u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
		at := u.Scheme + "://" + u.Host + u.EscapedPath()
		if first, twice := places[at]; twice {
			return nil, fmt.Errorf("URL %d is the same as URL %d", i+1, first)
		}
		places[at] = i + 1
		urls = append(urls, u)
	}
	return urls, nil
}

func formatURLs(urls []*url.URL) string {
	texts := make([]string, len(urls))
	for i, u := range urls {
		texts[i] = u.Redacted()
	}
	return strings.Join(texts, ",")
}

func parseShare(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("want a share from 0 to 1, such as 0.01, not %q", s)
	}
	return v, nil
}

// Load sets every option and validates them together. The error has all errors, warnings the doubtful values.
func (c *Frontend) Load(in Input) (warnings []string, err error) {
	c.input = in
	return c.load(in, c.Validate)
}

// Reload loads the options again from the input of Load; c is unchanged.
func (c *Frontend) Reload() (*Frontend, error) {
	fresh := NewFrontend()
	_, err := fresh.Load(c.input)
	return fresh, err
}

// Validate reports options that contradict each other. Missing downstreams are left
// to Ready: a configuration file for another subcommand has none.
func (c *Frontend) Validate() error {
	var errs []error
	if len(c.Options.Downstreams) > 0 && len(c.Options.Members) > 0 {
		errs = append(errs, errors.New("--downstream and --member exclude each other: replicas of one system, or systems with different series"))
	}
	if c.Options.MaxShards > 0 && c.Options.Shards > c.Options.MaxShards {
		errs = append(errs, fmt.Errorf("--shards %d is more than --max-shards %d", c.Options.Shards, c.Options.MaxShards))
	}
	errs = append(errs, c.HTTPAccess.validate()...)
	return errors.Join(append(errs, c.Log.validate())...)
}

func anyTLS(urls []*url.URL) bool {
	for _, u := range urls {
		if u.Scheme == "https" {
			return true
		}
	}
	return false
}

// Ready returns an error that names missing options.
func (c *Frontend) Ready() error {
	if len(c.Options.Downstreams) == 0 && len(c.Options.Members) == 0 {
		return errors.New("--downstream or --member is required: whom to ask, such as --downstream http://mimir:8080/prometheus")
	}
	return nil
}
