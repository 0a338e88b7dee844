//! A private authority.

use crate::place::Place;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use std::fs;
use std::path::PathBuf;

/// An authority, and a certificate for 127.0.0.1 with its key.
pub(crate) fn certificates(place: &Place) -> (PathBuf, PathBuf, PathBuf) {
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // One with the name of its certificates looks as if these were signed by themselves.
    authority.distinguished_name.push(DnType::CommonName, "authority");
    let authority_key = KeyPair::generate().expect("a key");
    let authority_certificate = authority.self_signed(&authority_key).expect("a certificate");
    let issuer = Issuer::new(authority, authority_key);
    let mut server = CertificateParams::new(Vec::new()).expect("parameters");
    server.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    let server_key = KeyPair::generate().expect("a key");
    let server_certificate = server.signed_by(&server_key, &issuer).expect("a certificate");
    let file = |name: &str, text: &str| {
        fs::write(place.path(name), text).expect("written");
        place.path(name)
    };
    (
        file("authority.pem", &authority_certificate.pem()),
        file("server.pem", &server_certificate.pem()),
        file("server.key", &server_key.serialize_pem()),
    )
}
