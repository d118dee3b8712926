package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
)

func newStoreCommand() *cobra.Command {
	options := config.NewStore()
	return newServerCommand(&cobra.Command{
		Use:   "store",
		Short: "Serve the blocks of a bucket to PromQL, Grafana and Thanos",
		Long: `Serve the blocks of a bucket to PromQL, Grafana and Thanos.

The bucket contains Prometheus, Thanos or Mimir blocks, on disk or in S3. --http serves
Prometheus' HTTP API, --grpc Thanos' StoreAPI: add it to a Thanos querier as an --endpoint.
S3 credentials come from the environment (AWS_ACCESS_KEY_ID, …), the shared credentials file
or the machine's role, never from the URL.

Each query is limited to --query-bytes, and all together to --process-bytes: further queries
queue, and larger ones fail. SIGTERM drains: no new
requests, running ones finish within --drain-timeout. SIGUSR1 reopens the query log, SIGHUP
re-reads --tenant-limits and --grpc-token-file. Certificates are read for each connection.

Each flag is also an environment variable (--query-bytes is TARE_QUERY_BYTES) and a key
under store: in the file that --config names. Flags override the
environment, and the environment the file.`,
		Example: `  tare store --bucket file:///var/lib/prometheus
  tare store --bucket 's3://metrics?endpoint=minio.example:9000' --grpc 127.0.0.1:10901
  tare store --bucket s3://metrics --shard 2/5 --data-dir /var/lib/tare/store-2`,
	}, options, &options.Diag, func(log *slog.Logger) server.Service { return newStoreService(*options, log) })
}
