package config

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
)

// A DiagFormat is the format of Tare's log.
type DiagFormat string

// Formats of Tare's log.
const (
	DiagText DiagFormat = "text"
	DiagJSON DiagFormat = "json"
)

// Diag are the options of the process itself: its log on standard error, and the permissions of files.
type Diag struct {
	Format DiagFormat
	Level  slog.Level
	Umask  fs.FileMode // permissions that created files and directories never have
}

// defaultUmask makes files and directories accessible to their owner only.
const defaultUmask = "0077"

// diagLevels are the names of slog's levels.
const diagLevels = "debug|info|warn|error"

func (d *Diag) declare(s *Set) {
	s.in("Diagnostics")
	Enum(s, &d.Format, "diag-format", "format of Tare's diagnostic log on standard error", DiagText, DiagJSON)
	declare(s, &d.Level, Option{
		Name: "diag-level", Kind: diagLevels, Default: "info",
		Help: "lowest level of Tare's diagnostic log",
	}, parseLevel, func(l slog.Level) string { return strings.ToLower(l.String()) })
	declare(s, &d.Umask, Option{
		Name: "umask", Kind: "mode", Default: defaultUmask,
		Help: "permissions that created files and directories lack; 0027: the group may read",
	}, parseUmask, formatFileMode)
}

// parseUmask parses octal digits that leave the owner all permissions.
func parseUmask(s string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > 0o077 {
		return 0, fmt.Errorf("want octal digits from 0000 to 0077, not %q", s)
	}
	return fs.FileMode(n), nil
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
