package storegateway

import (
	"context"

	"github.com/taredb/tare/internal/store/blocksync"
)

// Hooks of the external tests.

func WithQuery(ctx context.Context, q *Query) context.Context { return withQuery(ctx, q) }

func WithMaxResolution(ctx context.Context, r blocksync.Resolution) context.Context {
	return withMaxResolution(ctx, r)
}

func IsLimit(err error) bool { return isLimit(err) }

var ErrNoTenant = errNoTenant
