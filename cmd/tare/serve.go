package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
)

func newServeCommand() *cobra.Command {
	options := config.NewServe()
	return newServerCommand(&cobra.Command{
		Use:   "serve",
		Short: "Run the gateway in front of a MySQL-compatible server",
		Long: `Run the gateway in front of a MySQL-compatible server.

Clients log in with the server's own accounts; the gateway stores no password. SIGTERM
drains: no new connections, running statements finish within --drain-timeout. SIGUSR1
reopens the query log, SIGHUP re-reads the rules of --config, the
accounts for the standby and the certificates.

Each flag is also an environment variable (--max-connections is TARE_MAX_CONNECTIONS) and a
key under serve: in the file that --config names. Flags override the
environment, and the environment the file.`,
		Example: `  tare serve --backend mysql://127.0.0.1:3306
  tare serve --backend db.example:3306 --log-file /var/log/tare/query.log --log-slower-than 100ms
  tare serve --config /etc/tare.yaml`,
	}, options, &options.Diag, func(log *slog.Logger) server.Service { return newService(*options, log) })
}
