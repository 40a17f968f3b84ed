package seqsvr.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import seqsvr.client.internal.http.Pool;

/** The settings of a client. */
final class Options {
    /** Limit on the seeds of a client, half of the addresses that its pool can hold. */
    static final int MAX_SEEDS = Pool.MAX_ADDRESSES / 2;

    final List<String> seeds = new ArrayList<>();
    Duration deadline = SeqClient.DEFAULT_DEADLINE;
    boolean coalesces = true;
    Tls tls;
    /** Token of a tenant; null without a token. It is in no description of this object. */
    private String token;
    Observer observer;

    void token(String value) {
        token = value;
    }

    String token() {
        return token;
    }

    /** Returns the addresses of the seeds, without repeats. Throws the error of an invalid setting. */
    List<String> addresses() {
        if (seeds.isEmpty()) {
            throw invalid("no seed was given; name at least one node as http://host:port");
        }
        if (seeds.size() > MAX_SEEDS) {
            throw invalid(seeds.size() + " seeds are more than the " + MAX_SEEDS + " that a client can hold");
        }
        if (token != null && tls == null) {
            throw invalid("a token needs TLS: every reader of the connection could use it");
        }
        if (token != null && !token.matches("[!-~]+") || token != null && !token.contains(".")) {
            throw invalid("a token is of visible ASCII characters: TENANT.SECRET");
        }
        List<String> addrs = new ArrayList<>();
        for (String seed : seeds) {
            String addr = address(seed);
            if (!addrs.contains(addr)) {
                addrs.add(addr);
            }
        }
        return List.copyOf(addrs);
    }

    private String address(String seed) {
        String addr = seed;
        int colon = seed.indexOf("://");
        if (colon >= 0) {
            String scheme = seed.substring(0, colon);
            addr = seed.substring(colon + 3);
            addr = addr.endsWith("/") ? addr.substring(0, addr.length() - 1) : addr;
            if (!scheme.equals("http") && !scheme.equals("https")) {
                throw invalid("seed \"" + seed + "\": only http:// and https:// are supported");
            }
            if (scheme.equals("https") && tls == null) {
                throw invalid("seed \"" + seed + "\": https:// needs the setting tls");
            }
        }
        if (!Pool.isAddr(addr)) {
            throw invalid("seed \"" + seed + "\" is not of the form http://host:port");
        }
        return addr;
    }

    private static SeqException invalid(String text) {
        return Errors.connect(false, null, text);
    }
}
