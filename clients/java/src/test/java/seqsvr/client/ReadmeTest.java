package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.cluster.Eventually.eventually;

import java.io.StringWriter;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import seqsvr.client.cluster.Dev;

/** Compiles and runs the blocks of Java in the documents, but for the one that needs the library of OpenTelemetry. */
class ReadmeTest {
    @TempDir
    Path classes;

    private static List<String> blocks(String file) throws Exception {
        List<String> blocks = new ArrayList<>();
        Matcher matcher = Pattern.compile("(?s)```java\n(.*?)```").matcher(Files.readString(Path.of(file)));
        while (matcher.find()) {
            if (!matcher.group(1).contains("openTelemetry")) {
                blocks.add(matcher.group(1));
            }
        }
        return blocks;
    }

    @Test
    void theBlocksOfTheDocumentsRun() throws Exception {
        List<String> blocks = blocks("README.md");
        assertEquals(4, blocks.size());
        List<String> first = blocks("../../README.md");
        assertEquals(1, first.size());
        blocks.addAll(first);
        try (Dev dev = Dev.start(); SeqClient client = SeqClient.builder().seed(dev.allocs.get(0)).build()) {
            dev.createKeyspace("main");
            eventually("the keyspace is served", () -> client.keyspace("main").current("none"));
            for (int i = 0; i < blocks.size(); i++) {
                run("Block" + i, blocks.get(i).replace("127.0.0.1:7100", dev.allocs.get(0)), client);
            }
            assertTrue(client.current(42).value() > 2);
            assertEquals(1, client.keyspace("main").current("conv:8f3a").value());
        }
    }

    private void run(String name, String code, SeqClient client) throws Exception {
        String parameter = code.contains("SeqClient client =") ? "SeqClient unused" : "SeqClient client";
        String source = "import java.time.*; import java.util.*; import java.util.concurrent.*; import seqsvr.client.*;\n"
                + "public class " + name + " { public static void run(" + parameter + ") throws Exception {\n" + code + "} }\n";
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StringWriter log = new StringWriter();
        SimpleJavaFileObject file =
                new SimpleJavaFileObject(URI.create("string:///" + name + ".java"), SimpleJavaFileObject.Kind.SOURCE) {
                    @Override
                    public CharSequence getCharContent(boolean ignoresErrors) {
                        return source;
                    }
                };
        List<String> options = List.of("-d", classes.toString(), "-cp", System.getProperty("java.class.path"));
        assertTrue(compiler.getTask(log, null, null, options, null, List.of(file)).call(), log + source);
        try (URLClassLoader loader = new URLClassLoader(new URL[] {classes.toUri().toURL()}, getClass().getClassLoader())) {
            loader.loadClass(name).getMethod("run", SeqClient.class).invoke(null, client);
        }
    }
}
