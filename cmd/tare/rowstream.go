package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
)

func newRowstreamCommand() *cobra.Command {
	options := config.NewRowstream()
	return newServerCommand(&cobra.Command{
		Use:   "rowstream",
		Short: "Serve consistent rows of a MySQL-compatible server to tare copy",
		Long: `Serve consistent rows of a MySQL-compatible server to tare copy.

It runs next to the source. tare copy --from tare://… reads tables through it over one
connection, in batches with flow control, optionally compressed. A snapshot lives as long as its
copy is connected. With --follow the copy also receives the tables' changes from the source's
binary log. See docs/tasks/move-a-table.md.

Every client that may connect can read what the account in --from can: grant it only SELECT
(RELOAD or LOCK TABLES while a snapshot starts, REPLICATION SLAVE and REPLICATION CLIENT for
--follow). SIGTERM drains: no new snapshots, open ones continue within --drain-timeout, change
streams end and their copies reconnect. SIGUSR1 reopens the query log.

Each flag is also an environment variable (--max-workers is TARE_MAX_WORKERS) and a key
under rowstream: in the file that --config names. Flags override the
environment, and the environment the file.`,
		Example: `  tare rowstream --from mysql://reader:secret@127.0.0.1
  tare rowstream --from mysql://reader@127.0.0.1 --listen 0.0.0.0:3319 --tls-cert cert.pem --tls-key key.pem --token-file token`,
	}, options, &options.Diag, func(log *slog.Logger) server.Service { return newRowstreamService(options, log) })
}
