import{a as p,c as m,la as o}from"./chunk-4J6ICFHF.js";m(p(o,null),document.getElementById("app"));
