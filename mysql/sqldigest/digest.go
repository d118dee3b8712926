package sqldigest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Version is the version of the normalization rules: equal versions give equal digests. It is the first byte
// of every digest, so that stored digests include their versions.
//
// The first version is an exception: its digests begin with any byte, one in 256 with this one.
const Version = 2

// A Digest identifies the statements that differ only in literals, white space, comments and the case of
// keywords: Version, and the first 15 bytes of the SHA-256 of the normalized text. The zero value is no
// statement's digest.
type Digest [16]byte

// OfText returns the digest of a normalized text. It does not allocate.
func OfText(text []byte) Digest { return versioned(sha256.Sum256(text)) }

func versioned(sum [sha256.Size]byte) (d Digest) {
	d[0] = Version
	copy(d[1:], sum[:])
	return d
}

// Current reports whether d has this Version. Others refer to another normalized text, and no current
// statement has them.
func (d Digest) Current() bool { return d[0] == Version }

// IsZero reports whether d is the zero value.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns d as 32 lower-case hex digits.
func (d Digest) String() string {
	var b [32]byte
	hex.Encode(b[:], d[:])
	return string(b[:])
}

// AppendText appends the 32 hex digits of d to dst. It does not allocate when dst has room.
// The error is always nil.
func (d Digest) AppendText(dst []byte) ([]byte, error) {
	return hex.AppendEncode(dst, d[:]), nil
}

// MarshalText returns the 32 hex digits of d. The error is always nil.
func (d Digest) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// UnmarshalText sets d from 32 hex digits of either case.
func (d *Digest) UnmarshalText(text []byte) error {
	var v Digest
	if len(text) != 2*len(v) {
		return fmt.Errorf("parse digest %q: %d characters instead of %d", text, len(text), 2*len(v))
	}
	if _, err := hex.Decode(v[:], text); err != nil {
		return fmt.Errorf("parse digest %q: %w", text, err)
	}
	*d = v
	return nil
}

// Parse returns the digest for s, 32 hex digits of either case.
func Parse(s string) (Digest, error) {
	var d Digest
	err := d.UnmarshalText([]byte(s))
	return d, err
}
