package seqsvr.client;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.math.BigInteger;
import java.net.Socket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.Signature;
import java.security.cert.CRLException;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509CRL;
import java.security.cert.X509CRLEntry;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import javax.net.ssl.KeyManager;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedTrustManager;

/** The result of one reading of the files of {@link Tls}. */
final class Trust {
    private static final Set<String> SERVERS = Set.of("store", "alloc", "proxy");
    private static final int URI_NAME = 6;

    private final CertificateFactory factory = CertificateFactory.getInstance("X.509");
    private final List<X509Certificate> authorities;
    private PrivateKey key;
    private X509Certificate[] chain;
    /** Cluster of the client's certificate; null without a certificate, or if it names none. */
    private String cluster;
    /** Serial numbers of revoked certificates. */
    private final Set<BigInteger> revoked = new HashSet<>();

    private Trust(Path ca) throws IOException, GeneralSecurityException {
        authorities = certificates(Pem.read(ca, "CERTIFICATE"));
    }

    static Trust read(Tls files) throws IOException, GeneralSecurityException {
        Trust trust = new Trust(files.ca());
        if (files.certificate().isPresent()) {
            trust.readCertificate(files.certificate().get());
        }
        if (files.revocations().isPresent()) {
            trust.readRevocations(files.revocations().get());
        }
        return trust;
    }

    private List<X509Certificate> certificates(Pem pem) throws IOException, CertificateException {
        List<X509Certificate> list = new ArrayList<>();
        for (byte[] section : pem.sections("CERTIFICATE")) {
            list.add((X509Certificate) factory.generateCertificate(new ByteArrayInputStream(section)));
        }
        return list;
    }

    private void readCertificate(Path path) throws IOException, GeneralSecurityException {
        Pem pem = Pem.read(path, "CERTIFICATE", "PRIVATE KEY");
        chain = certificates(pem).toArray(new X509Certificate[0]);
        String algorithm = chain[0].getPublicKey().getAlgorithm();
        key = KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(pem.sections("PRIVATE KEY").get(0)));
        checkPair(path, algorithm);
        if (chain[0].getNotAfter().getTime() < System.currentTimeMillis()) {
            throw new CertificateException(path + ": the certificate has expired at " + chain[0].getNotAfter().toInstant());
        }
        URI identity = identityOf(chain[0]);
        cluster = identity == null ? null : identity.getHost();
    }

    /** Checks that the key is that of the certificate. */
    private void checkPair(Path path, String algorithm) throws GeneralSecurityException {
        String signature = switch (algorithm) {
            case "EC" -> "SHA256withECDSA";
            case "RSA" -> "SHA256withRSA";
            default -> algorithm;
        };
        byte[] text = {1, 2, 3};
        Signature signing = Signature.getInstance(signature);
        signing.initSign(key);
        signing.update(text);
        byte[] signed = signing.sign();
        Signature verifying = Signature.getInstance(signature);
        verifying.initVerify(chain[0].getPublicKey());
        verifying.update(text);
        if (!verifying.verify(signed)) {
            throw new CertificateException(path + ": the key is not that of the certificate");
        }
    }

    /** Reads a list of revocations, which one of the authorities must have signed. */
    private void readRevocations(Path path) throws IOException, GeneralSecurityException {
        if (!Files.exists(path)) {
            return;
        }
        for (byte[] section : Pem.read(path, "X509 CRL").sections("X509 CRL")) {
            X509CRL list;
            try {
                list = (X509CRL) factory.generateCRL(new ByteArrayInputStream(section));
            } catch (CRLException e) {
                throw new CRLException(path + ": " + e.getMessage(), e);
            }
            if (authorities.stream().noneMatch(authority -> isSignedBy(list, authority))) {
                throw new CRLException(path + ": no authority of the cluster has signed the list of revocations");
            }
            if (list.getRevokedCertificates() != null) {
                for (X509CRLEntry entry : list.getRevokedCertificates()) {
                    revoked.add(entry.getSerialNumber());
                }
            }
        }
    }

    private static boolean isSignedBy(X509CRL list, X509Certificate authority) {
        try {
            list.verify(authority.getPublicKey());
            return true;
        } catch (GeneralSecurityException e) {
            return false;
        }
    }

    /** Returns the identity of the holder of a certificate, seqsvr://CLUSTER/ROLE/NAME; null if it names none. */
    private static URI identityOf(X509Certificate certificate) throws CertificateException {
        Collection<List<?>> names = certificate.getSubjectAlternativeNames();
        URI found = null;
        for (List<?> name : names == null ? List.<List<?>>of() : names) {
            if (name.get(0).equals(URI_NAME)) {
                try {
                    URI uri = URI.create((String) name.get(1));
                    if (found != null || !"seqsvr".equals(uri.getScheme()) || uri.getHost() == null) {
                        return null;
                    }
                    found = uri;
                } catch (IllegalArgumentException e) {
                    return null;
                }
            }
        }
        return found;
    }

    /** Checks that a certificate, whose chain and host were verified, is that of a server of the cluster. */
    private void check(X509Certificate certificate) throws CertificateException {
        URI identity = identityOf(certificate);
        if (identity == null) {
            throw new CertificateException("the certificate names no holder of a cluster");
        }
        if (cluster != null && !cluster.equals(identity.getHost())) {
            throw new CertificateException(
                    "the certificate of " + identity + " is of another cluster than \"" + cluster + "\"");
        }
        String[] path = identity.getPath().split("/");
        if (path.length < 2 || !SERVERS.contains(path[1])) {
            throw new CertificateException("the certificate of " + identity + " is no server's");
        }
        if (revoked.contains(certificate.getSerialNumber())) {
            throw new CertificateException("the certificate of " + identity + " with serial "
                    + certificate.getSerialNumber().toString(16) + " is revoked");
        }
    }

    /** Returns a context for connections with these credentials. */
    SSLContext context() throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        for (int i = 0; i < authorities.size(); i++) {
            store.setCertificateEntry("authority-" + i, authorities.get(i));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(store);
        X509ExtendedTrustManager chains = (X509ExtendedTrustManager) trust.getTrustManagers()[0];
        KeyManager[] keys = key == null ? new KeyManager[0] : new KeyManager[] {new OneKey(key, chain)};
        SSLContext context = SSLContext.getInstance("TLSv1.3");
        context.init(keys, new TrustManager[] {new Servers(chains)}, null);
        return context;
    }

    /** Accepts servers of the cluster, whose chains and hosts another manager verifies. */
    private final class Servers extends X509ExtendedTrustManager {
        private final X509ExtendedTrustManager chains;

        Servers(X509ExtendedTrustManager chains) {
            this.chains = chains;
        }

        /** Adds to the text of an error, such as that of a host, that it is about the certificate. */
        private CertificateException notAccepted(CertificateException cause) {
            return new CertificateException("the server's certificate is not accepted: " + cause.getMessage(), cause);
        }

        @Override
        public void checkServerTrusted(X509Certificate[] of, String type, SSLEngine engine) throws CertificateException {
            try {
                chains.checkServerTrusted(of, type, engine);
            } catch (CertificateException e) {
                throw notAccepted(e);
            }
            check(of[0]);
        }

        @Override
        public void checkServerTrusted(X509Certificate[] of, String type, Socket socket) throws CertificateException {
            try {
                chains.checkServerTrusted(of, type, socket);
            } catch (CertificateException e) {
                throw notAccepted(e);
            }
            check(of[0]);
        }

        @Override
        public void checkServerTrusted(X509Certificate[] of, String type) throws CertificateException {
            // Without an engine the host could not be verified.
            throw new CertificateException("the host of the server is not known");
        }

        @Override
        public void checkClientTrusted(X509Certificate[] of, String type, SSLEngine engine) throws CertificateException {
            throw new CertificateException("this is a client");
        }

        @Override
        public void checkClientTrusted(X509Certificate[] of, String type, Socket socket) throws CertificateException {
            throw new CertificateException("this is a client");
        }

        @Override
        public void checkClientTrusted(X509Certificate[] of, String type) throws CertificateException {
            throw new CertificateException("this is a client");
        }

        @Override
        public X509Certificate[] getAcceptedIssuers() {
            return chains.getAcceptedIssuers();
        }
    }
}
