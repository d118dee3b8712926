package mysqlconn

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// keyPairBits is the size of a KeyPair, as MySQL generates its own.
const keyPairBits = 2048

// A ServerKey specifies the RSA key that encrypts a password without TLS, as sha256_password and
// caching_sha2_password request. With the zero value such logins fail with a *ServerKeyError.
type ServerKey struct {
	// Key is known in advance: another server cannot decrypt the password.
	Key *rsa.PublicKey

	// Request accepts the key that the server presents. It protects from eavesdropping; an impostor presents
	// its own key and gets the password.
	Request bool

	// Options are the names of the options for Key and Request, for errors; zero: errors name none.
	Options [2]string
}

// A ServerKeyError reports that a server requests the password on a connection without TLS, encrypted with its
// public key, and that no key is trusted.
type ServerKeyError struct {
	Options [2]string // of the ServerKey
}

func (e *ServerKeyError) Error() string {
	const text = "the server asks for the password on a connection without TLS: use TLS, or trust its public key"
	if e.Options == [2]string{} {
		return text
	}
	return text + ", by " + e.Options[0] + " or, where no other server can respond in its place, by " + e.Options[1]
}

// ParsePublicKey parses the PEM public key that a server sends on request, and keeps in public_key.pem.
func ParsePublicKey(text []byte) (*rsa.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("parse the server's public key: not in PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the server's public key: %w", err)
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("parse the server's public key: it is a %T, want an RSA key", key)
	}
	return public, nil
}

// EncryptPassword returns the response by which caching_sha2_password and sha256_password send a password
// without TLS: the password and a NUL byte, xor the challenge repeated, encrypted for the server's public key
// by RSA-OAEP with SHA-1.
func EncryptPassword(password string, challenge []byte, key *rsa.PublicKey) ([]byte, error) {
	challenge = scramble20(challenge)
	if len(challenge) == 0 {
		return nil, errors.New("encrypt the password: the server sent no challenge")
	}
	plain := append([]byte(password), 0)
	xor(plain, challenge)
	secret, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, key, plain, nil)
	if err != nil {
		return nil, fmt.Errorf("encrypt the password: %w", err)
	}
	return secret, nil
}

// A KeyPair serves clients that request a gateway's public key, and decrypts the passwords they encrypt with
// it. It is safe for concurrent use.
type KeyPair struct {
	private *rsa.PrivateKey
	public  []byte // PEM
}

// NewKeyPair generates a key pair in memory. It takes some 0.1 s of CPU.
func NewKeyPair() (*KeyPair, error) {
	private, err := rsa.GenerateKey(rand.Reader, keyPairBits)
	if err != nil {
		return nil, fmt.Errorf("generate an RSA key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encode the RSA key: %w", err)
	}
	return &KeyPair{private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}, nil
}

// PublicPEM returns the public key as a server sends it, in PEM. The caller must not modify it.
func (k *KeyPair) PublicPEM() []byte { return k.public }

// DecryptPassword reverses EncryptPassword. It requires a secret of the key's length: the RSA operation would
// also accept one that lost leading zero bytes.
func (k *KeyPair) DecryptPassword(secret, challenge []byte) (string, error) {
	challenge = scramble20(challenge)
	if len(secret) != k.private.Size() {
		return "", fmt.Errorf("decrypt the password: it has %d bytes, want %d", len(secret), k.private.Size())
	}
	plain, err := rsa.DecryptOAEP(sha1.New(), rand.Reader, k.private, secret, nil)
	if err != nil {
		return "", fmt.Errorf("decrypt the password: %w", err)
	}
	if len(challenge) == 0 {
		return "", errors.New("decrypt the password: no challenge was sent")
	}
	xor(plain, challenge)
	if len(plain) == 0 || plain[len(plain)-1] != 0 {
		return "", errors.New("decrypt the password: it was encrypted for another challenge")
	}
	return string(plain[:len(plain)-1]), nil
}
