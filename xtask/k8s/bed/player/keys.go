package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// writeKeys makes the pair that the API server signs service accounts' tokens with.
func writeKeys(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	private := x509.MarshalPKCS1PrivateKey(key)
	if err := writePEM(filepath.Join(dir, "sa.key"), "RSA PRIVATE KEY", private); err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeCertificate(dir)
}

const (
	kubeletCert = "kubelet.crt"
	kubeletKey  = "kubelet.key"
)

// writeCertificate makes what API server and kubelets show each other.
func writeCertificate(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	now := time.Now()
	certificate := x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "bed"},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	bytes, err := x509.CreateCertificate(rand.Reader, &certificate, &certificate, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private := x509.MarshalPKCS1PrivateKey(key)
	if err := writePEM(filepath.Join(dir, kubeletKey), "RSA PRIVATE KEY", private); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, kubeletCert), "CERTIFICATE", bytes)
}

func writePEM(path, kind string, bytes []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
}
