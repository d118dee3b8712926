package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/taredb/tare/internal/config"
)

// runServe builds the gateway's parts and runs them until ctx is done.
func runServe(_ context.Context, cfg config.Serve, log *slog.Logger) error {
	log.Debug("starting", "listen", cfg.Listen, "backend", cfg.Backend)
	return errors.New("the gateway is not built in")
}
