import{a as p,c as m,ma as o}from"./chunk-K2DM5CTA.js";m(p(o,null),document.getElementById("app"));
