import{a as p,c as m,qa as o}from"./chunk-LLUQHQF4.js";m(p(o,null),document.getElementById("app"));
