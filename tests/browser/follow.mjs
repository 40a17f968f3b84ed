// A page that follows the cluster. The test opens and closes it, and measures its cost.
import { args, checkQuiet, openAt, scenario, step } from './browser.mjs';

scenario(async browser => {
  for (let goesOn = true; goesOn;) {
    await step('closed');
    const page = await openAt(browser, args.path);
    const begin = await page.metrics();
    ({ goesOn } = await step('open'));
    const end = await page.metrics();
    await step('measured', { share: (end.TaskDuration - begin.TaskDuration) / (end.Timestamp - begin.Timestamp) });
    await checkQuiet(page, args.path);
    await page.close();
  }
});
