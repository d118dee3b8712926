package config

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// A DiagFormat is the format of Tare's log.
type DiagFormat string

// Formats of Tare's log.
const (
	DiagText DiagFormat = "text"
	DiagJSON DiagFormat = "json"
)

// Diag are the options of Tare's log on standard error.
type Diag struct {
	Format DiagFormat
	Level  slog.Level
}

// diagLevels are the names of slog's levels.
const diagLevels = "debug|info|warn|error"

func (d *Diag) declare(s *Set) {
	Enum(s, &d.Format, "diag-format", "format of Tare's diagnostic log on standard error", DiagText, DiagJSON)
	declare(s, &d.Level, Option{
		Name: "diag-level", Kind: diagLevels, Default: "info",
		Help: "lowest level of Tare's diagnostic log",
	}, parseLevel, func(l slog.Level) string { return strings.ToLower(l.String()) })
}

func parseLevel(text string) (slog.Level, error) {
	var l slog.Level
	if !strings.Contains("|"+diagLevels+"|", "|"+text+"|") || l.UnmarshalText([]byte(text)) != nil {
		return 0, fmt.Errorf("want one of %s, not %q", strings.ReplaceAll(diagLevels, "|", ", "), text)
	}
	return l, nil
}

// Logger returns a logger that writes to w in this format.
func (d Diag) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: d.Level}
	if d.Format == DiagJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
