package mesh

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	sealedType = "QUORATE SEALED CA KEY"
	sealedCA   = "Ca" // PEM header with the CA's fingerprint
	sealInfo   = "quorate ca key v1"
	saltBytes  = 32
)

// sealer returns the cipher that seals CA keys on the node whose private key this
// is. It is derived from the raw secret and not from an encoding of it, since an
// encoding may change with a library.
func sealer(node crypto.Signer, salt []byte) (cipher.AEAD, error) {
	var secret []byte
	switch k := node.(type) {
	case *ecdsa.PrivateKey:
		b, err := k.Bytes()
		if err != nil {
			return nil, fmt.Errorf("read node key: %w", err)
		}
		secret = b
	case ed25519.PrivateKey:
		secret = k.Seed()
	default:
		return nil, fmt.Errorf("node key must be ECDSA or Ed25519, is %T", node)
	}
	key, err := hkdf.Key(sha256.New, secret, salt, sealInfo, 32)
	if err != nil {
		return nil, fmt.Errorf("derive sealing key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal returns the PEM block that keeps the authority's key on this node's disk.
func (a *Authority) seal(node crypto.Signer) ([]byte, error) {
	plain, err := a.KeyPEM()
	if err != nil {
		return nil, err
	}
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	aead, err := sealer(node, salt)
	if err != nil {
		return nil, err
	}
	fp := a.Fingerprint()
	sealed := aead.Seal(salt, nil, []byte(plain), []byte(fp))
	return pem.EncodeToMemory(&pem.Block{Type: sealedType, Headers: map[string]string{sealedCA: fp}, Bytes: sealed}), nil
}

// unseal opens a block that seal made. cert finds the CA's certificate.
func unseal(node crypto.Signer, block *pem.Block, cert func(fingerprint string) (string, bool)) (*Authority, error) {
	fp := block.Headers[sealedCA]
	if block.Type != sealedType || len(block.Bytes) < saltBytes {
		return nil, fmt.Errorf("must hold %s blocks, holds %q", sealedType, block.Type)
	}
	aead, err := sealer(node, block.Bytes[:saltBytes:saltBytes])
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, block.Bytes[saltBytes:], []byte(fp))
	if err != nil {
		return nil, errors.New("does not open with this node's private key: it was sealed on another node or was damaged")
	}
	text, ok := cert(fp)
	if !ok {
		return nil, fmt.Errorf("holds the key of CA %s, which is not trusted", fp)
	}
	return ParseAuthority(text, string(plain))
}
