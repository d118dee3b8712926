// Package rest has the warnings of client-go, which are not logged here.
package rest

import "context"

// A WarningHandlerWithContext receives the warnings in responses of the Kubernetes API.
type WarningHandlerWithContext interface {
	HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string)
}

// A WarningLogger drops warnings.
type WarningLogger struct{}

// HandleWarningHeaderWithContext has no effect.
func (WarningLogger) HandleWarningHeaderWithContext(context.Context, int, string, string) {}
