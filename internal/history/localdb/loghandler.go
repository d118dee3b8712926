package localdb

import (
	"context"
	"log/slog"
)

// A levelHandler forwards records of level warning or above.
type levelHandler struct{ next slog.Handler }

var _ slog.Handler = levelHandler{}

func (h levelHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.next.Enabled(ctx, l)
}

func (h levelHandler) Handle(ctx context.Context, r slog.Record) error { return h.next.Handle(ctx, r) }

func (h levelHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return levelHandler{h.next.WithAttrs(as)}
}

func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.next.WithGroup(name)}
}
