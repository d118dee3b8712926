package wire

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// authorization is the header of a token, and bearer its prefix.
const (
	authorization = "authorization"
	bearer        = "Bearer "
)

// A guard authorizes calls with the token. It compares in constant time.
type guard struct{ sum [sha256.Size]byte }

func newGuard(token string) *guard { return &guard{sha256.Sum256([]byte(token))} }

// check checks the token in a call's headers: before its request, whose bytes cost memory, is received.
func (g *guard) check(header metadata.MD) error {
	values := header.Get(authorization)
	if len(values) != 1 {
		return statusOf(refuse(codes.Unauthenticated, "the call carries no token"))
	}
	given, ok := strings.CutPrefix(values[0], bearer)
	sum := sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(sum[:], g.sum[:]) != 1 || !ok {
		return statusOf(refuse(codes.Unauthenticated, "the call carries a token that is not this server's"))
	}
	return nil
}

// A tokenCredential sends a token with each call. The operator decides whether that is safe without TLS.
type tokenCredential struct{ header map[string]string }

var _ credentials.PerRPCCredentials = tokenCredential{}

func newTokenCredential(token string) tokenCredential {
	return tokenCredential{map[string]string{authorization: bearer + token}}
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (c tokenCredential) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return c.header, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (tokenCredential) RequireTransportSecurity() bool { return false }
