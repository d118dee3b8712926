package storeapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A Token is the bearer token that calls must carry. It may be replaced at any time; running calls continue.
type Token struct {
	sum atomic.Pointer[[sha256.Size]byte]
}

// NewToken returns a token with the text.
func NewToken(text string) *Token {
	t := &Token{}
	t.Set(text)
	return t
}

// Set replaces the text.
func (t *Token) Set(text string) {
	sum := sha256.Sum256([]byte(text))
	t.sum.Store(&sum)
}

// check returns an error unless the metadata of a call have the token. It compares in constant time.
func (t *Token) check(md metadata.MD) error {
	values := md.Get("authorization")
	if len(values) != 1 {
		return status.Error(codes.Unauthenticated, "the call carries no token: option grpc-token requires the metadata authorization: Bearer TOKEN")
	}
	given, ok := strings.CutPrefix(values[0], "Bearer ")
	sum := sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(sum[:], t.sum.Load()[:]) != 1 || !ok {
		return status.Error(codes.Unauthenticated, "the call carries a token that is not this server's")
	}
	return nil
}
