package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
)

// Store are the options of tare store.
type Store struct {
	section
	ConfigFile string

	Gateway storegateway.Options     // those that are options as they are; the wiring sets the others
	API     storegateway.HTTPOptions // the same

	Bucket bucketurl.URL // zero: not set
	GRPC   Address       // "": off

	QueryBytes      Bytes
	ProcessBytes    Bytes
	IndexCacheBytes Bytes
	ResponseBytes   Bytes
	MemoryLimit     Bytes // 0: derived from the budgets

	DiskCache DiskCache
	Memcached Memcached

	TenantLimits string // file; "": none

	MaxSeries int // 0: no limit
	MaxChunks int // 0: no limit

	Calls BucketCalls

	TracesURL string // of an OTLP receiver; "": none

	GRPCCert, GRPCKey, GRPCClientCA string // files
	GRPCToken                       Token

	Server
}

// NewStore returns the options of tare store with their defaults.
func NewStore() *Store {
	c := &Store{}
	s := newSet("store", &c.ConfigFile)
	declare(s, &c.Bucket, Option{
		Name: "bucket", Kind: "url",
		Help: "location of the blocks: file:///path or s3://bucket/prefix?endpoint=host:port&region=…; required",
	}, parseBucket, bucketurl.URL.String)
	s.OptionalAddress(&c.HTTP, "http", "127.0.0.1:8317", "address for Prometheus' HTTP API, metrics and health; off for none")
	s.OptionalAddress(&c.GRPC, "grpc", "off", "address for Thanos queriers (StoreAPI), such as 127.0.0.1:10901; off for none")
	Enum(s, &c.Gateway.Layout, "layout", "layout of the bucket; auto detects it",
		blocksync.LayoutAuto, blocksync.LayoutPrometheus, blocksync.LayoutThanos, blocksync.LayoutMimir)
	declare(s, &c.Gateway.Tenants, Option{
		Name: "tenants", Kind: "names",
		Help: "comma-separated tenants of a mimir bucket to serve; all when empty",
	}, parseNames, func(names []string) string { return strings.Join(names, ",") })
	declare(s, &c.Gateway.Shard, Option{
		Name: "shard", Kind: "i/n", Default: "1/1",
		Help: "part of the blocks, if n processes share a bucket",
	}, blocksync.ParseShard, blocksync.Shard.String)
	const timeKind = "time"
	declare(s, &c.Gateway.Times.Min, Option{
		Name: "min-time", Kind: timeKind,
		Help: "serve no samples before this time: 2026-01-31T00:00:00Z, or a duration from now like -2w; all when empty",
	}, blocksync.ParseTimeBound, blocksync.TimeBound.String)
	declare(s, &c.Gateway.Times.Max, Option{
		Name: "max-time", Kind: timeKind,
		Help: "serve no samples after this time; all when empty",
	}, blocksync.ParseTimeBound, blocksync.TimeBound.String)
	s.String(&c.DataDir, "data-dir", "dir", "", "directory for index headers and the query log's sequence file, one per process; when empty store in $STATE_DIRECTORY, $XDG_STATE_HOME/tare or ~/.local/state/tare")
	s.in("Memory and limits")
	declareBytes(s, &c.QueryBytes, "query-bytes", "256MiB", 4<<20, "memory limit of one query: postings, series, chunks, values, samples and the response")
	declareBytes(s, &c.ProcessBytes, "process-bytes", "1GiB", 4<<20, "memory limit of all queries, others queue; label and series requests have another 1/16")
	declareBytes(s, &c.IndexCacheBytes, "index-cache-bytes", "256MiB", 1<<20, "memory for pages of block indexes")
	c.DiskCache.declare(s, "")
	c.Memcached.declare(s, "")
	declareBytes(s, &c.ResponseBytes, "response-bytes", "128MiB", 1<<20, "memory for encoded responses that wait for clients, a quarter for each")
	declareBytes(s, &c.MemoryLimit, "memory-limit", "0", 0, "soft memory limit (GOMEMLIMIT takes precedence); 0: the sum of the budgets and 192MiB")
	s.String(&c.TenantLimits, "tenant-limits", "file", "", "YAML file with limits per tenant, or client of a bucket without tenants; re-read on SIGHUP")
	s.Int(&c.MaxSeries, "max-series", "0", 0, "series limit of one query; 0: limited only by --query-bytes")
	s.Int(&c.MaxChunks, "max-chunks", "0", 0, "chunk limit of one query; 0: limited only by --query-bytes")
	s.Int(&c.API.MaxSamples, "max-samples", "50000000", 0, "sample limit of one PromQL query, as in Prometheus; half of --query-bytes, at 16 bytes each, limits it too; 0: only that")
	s.Duration(&c.API.Timeout, "query-timeout", "2m", "time limit of one query, queueing included")
	s.Duration(&c.API.LookbackDelta, "lookback-delta", "5m", "lookback of PromQL for the latest sample")
	s.in("Bucket")
	s.Duration(&c.Gateway.SyncInterval, "sync-interval", "1m", "interval between syncs of the bucket")
	s.Duration(&c.Gateway.DeletionDelay, "deletion-delay", "1h", "how long a block marked for deletion is still served")
	c.Calls.declare(s, "queue-timeout")
	s.in("Memory and limits")
	s.Duration(&c.API.WriteTimeout, "write-timeout", "30s", "how long a client may take no data, or leave its request incomplete")
	s.in("PromQL")
	declare(s, &c.API.Features, Option{
		Name: "enable-feature", Kind: "names",
		Help: "comma-separated features of PromQL, as in Prometheus: " + strings.Join(promapi.FeatureNames(), ", "),
	}, parseFeatures, promapi.Features.String)
	Enum(s, &c.Gateway.Partial, "partial", "queries over blocks that are not served (damaged, of another shard or time range): warn, or deny",
		storegateway.PartialWarn, storegateway.PartialDeny)
	s.in("Bucket")
	s.Bool(&c.Gateway.EagerHeaders, "eager-headers", "load all index headers before serving")
	s.Duration(&c.Gateway.HeaderIdle, "header-idle", "1h", "unload an index header unused for this long")
	s.traces(&c.TracesURL)
	s.in("Memory and limits")
	s.Duration(&c.DrainTimeout, "drain-timeout", "30s", "time for running queries after SIGTERM")
	s.in("Access by gRPC")
	s.String(&c.GRPCCert, "grpc-tls-cert", "file", "", "certificate for queriers (PEM); required when --grpc is not loopback; read again for each connection")
	s.String(&c.GRPCKey, "grpc-tls-key", "file", "", "key of --grpc-tls-cert (PEM)")
	s.String(&c.GRPCClientCA, "grpc-tls-client-ca", "file", "", "CA certificates of queriers (PEM): only queriers with a certificate are served")
	c.GRPCToken.declare(s, "grpc-", "token that queriers must send (authorization: Bearer TOKEN)")
	c.HTTPAccess.declare(s)
	c.Log.declareRequests(s, requestLog{
		kind: "request", fields: storegateway.LogFields(),
		example: "endpoint=Series total_ns>10ms bytes_fetched>1000000",
		values:  "the values in matchers and expressions", rows: "series", digest: "digest", text: "matchers",
	})
	c.Diag.declare(s)
	s.need("without --layout mimir", func() bool { return c.Gateway.Layout == blocksync.LayoutMimir }, "tenants")
	s.need("with --http off", c.on, "enable-feature", "lookback-delta", "max-samples")
	grpc := func() bool { return c.GRPC != "" }
	s.need("with --grpc off", grpc, "grpc-tls-cert", "grpc-tls-key", "grpc-tls-client-ca", "grpc-token", "grpc-token-file")
	s.need("without --grpc-tls-cert", func() bool { return c.GRPCCert != "" }, "grpc-tls-client-ca")
	c.HTTPAccess.need(s)
	c.Log.need(s, &c.HTTPAccess)
	c.set = s
	return c
}

// parseBucket accepts URLs of storegateway, and "" for not set.
func parseBucket(s string) (bucketurl.URL, error) {
	if s == "" {
		return bucketurl.URL{}, nil
	}
	return bucketurl.Parse(s)
}

// parseFeatures accepts features of promapi, and "" for none.
func parseFeatures(s string) (promapi.Features, error) {
	names, err := parseNames(s)
	if err != nil {
		return promapi.Features{}, err
	}
	return promapi.ParseFeatures(names)
}

// parseNames splits a list at commas.
func parseNames(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	names := strings.Split(s, ",")
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); names[i] == "" {
			return nil, fmt.Errorf("want names separated by commas, not %q", s)
		}
	}
	return names, nil
}

// Load sets every option and validates them together. The error has all errors, warnings the doubtful values.
func (c *Store) Load(in Input) (warnings []string, err error) {
	return c.load(in, c.Validate)
}

// Validate reports options that contradict each other. A missing bucket is left to
// Ready: a configuration file for another subcommand has none.
func (c *Store) Validate() error {
	var errs []error
	if c.ProcessBytes < c.QueryBytes {
		errs = append(errs, fmt.Errorf("--process-bytes %v is less than --query-bytes %v: no query could run", c.ProcessBytes, c.QueryBytes))
	}
	if c.API.Timeout == 0 {
		errs = append(errs, errors.New("--query-timeout: want more than 0"))
	}
	errs = append(errs, c.Calls.validate("queue-timeout"))
	errs = append(errs, c.Memcached.validate(""))
	if c.API.WriteTimeout == 0 {
		errs = append(errs, errors.New("--write-timeout: want more than 0"))
	}
	if c.Gateway.SyncInterval < time.Second {
		errs = append(errs, errors.New("--sync-interval: want at least 1s"))
	}
	if c.Gateway.Times.Validate() != nil {
		errs = append(errs, errors.New("--max-time is before --min-time: no block would be served"))
	}
	if c.HTTP == "" && c.GRPC == "" {
		errs = append(errs, errors.New("--http and --grpc are both off: enable one of them"))
	}
	if c.HTTP == c.GRPC && c.HTTP != "" && !strings.HasSuffix(string(c.HTTP), ":0") {
		errs = append(errs, errors.New("--http and --grpc are the same address"))
	}
	errs = append(errs, c.HTTPAccess.validate()...)
	errs = append(errs, c.GRPCToken.validate("grpc-")...)
	return errors.Join(append(append(errs, c.validateTLS()...), c.Log.validate())...)
}

func (c *Store) validateTLS() (errs []error) {
	if (c.GRPCCert == "") != (c.GRPCKey == "") {
		errs = append(errs, errors.New("--grpc-tls-cert and --grpc-tls-key need each other"))
	}
	if c.GRPC != "" && !c.GRPC.Loopback() && c.GRPCCert == "" {
		errs = append(errs, fmt.Errorf("--grpc %s is open to other machines: it needs --grpc-tls-cert", c.GRPC))
	}
	return errs
}

// Ready returns an error that names missing options.
func (c *Store) Ready() error {
	if c.Bucket.String() == "" {
		return errors.New("--bucket is required: file:///path or s3://bucket?endpoint=host:port")
	}
	return nil
}
