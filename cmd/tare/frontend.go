package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
)

func newFrontendCommand() *cobra.Command {
	options := config.NewFrontend()
	return newServerCommand(&cobra.Command{
		Use:   "frontend",
		Short: "List the active series of a fleet, shard by shard",
		Long: `List the active series of a fleet, shard by shard.

--downstream names replicas of one system, such as Mimir's query frontends: each shard is requested
from one of them, and retried on another. --member names systems with different series, such as a
fleet of gateways: each shard is requested from all of them.

  curl -G http://127.0.0.1:8318/api/v1/cardinality/active_series \
    --data-urlencode 'selector={job="api"}'

SIGTERM drains: no new requests, running ones finish within --drain-timeout. SIGUSR1 reopens
the query log, SIGHUP re-reads --decoder and --decoder-compare from --config.

Each flag is also an environment variable (--max-shards is TARE_MAX_SHARDS) and a key
under frontend: in the file that --config names. Flags override the
environment, and the environment the file.`,
		Example: `  tare frontend --downstream http://mimir-1:8080/prometheus,http://mimir-2:8080/prometheus
  tare frontend --member http://gateway-1:8316,http://gateway-2:8316 --shards 4`,
	}, options, &options.Diag, func(log *slog.Logger) server.Service { return newFrontendService(options, log) })
}
